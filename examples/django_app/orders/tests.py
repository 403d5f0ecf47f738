"""How a Django project with jobs is tested: `manage.py test` knows nothing of Foliot, and need not."""

from django.test import TestCase

from foliot.testing import Harness
from mysite.jobs import app
from orders.jobs import write_invoice
from orders.models import Order


class OrderTests(TestCase):
    def setUp(self) -> None:
        self.foliot = self.enterContext(Harness(app))

    def test_an_order_gets_its_invoice(self) -> None:
        placed = self.client.post("/orders/", {"customer": "ada", "amount": 42})
        self.foliot.assert_submitted(write_invoice, order=placed.json()["order"], count=1)

        # The job runs in this thread: it sees what this test has not committed.
        self.foliot.run_until_idle(reraise=True)
        self.assertEqual(Order.objects.get().invoice, "42 from ada")

    def test_a_refused_order_submits_nothing(self) -> None:
        refused = self.client.post("/orders/", {"customer": "ada", "amount": "many"})
        self.assertEqual(refused.status_code, 400)
        self.foliot.assert_not_submitted(write_invoice)
