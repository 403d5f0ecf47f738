"""The jobs of this app. A worker runs them in threads, and Django gives each thread its own connection."""

from mysite.jobs import app
from orders.models import Order


@app.job(queue="invoices")
def write_invoice(order: int) -> str:
    found = Order.objects.get(pk=order)
    found.invoice = f"{found.amount} from {found.customer}"
    found.save(update_fields=["invoice"])
    return found.invoice
