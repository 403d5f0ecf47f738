"""The app and its jobs. `foliot worker shop.jobs:app` runs them apart from the service."""

from foliot import Exponential, Foliot

app = Foliot()  # FOLIOT_URL, else sqlite:///foliot.db


@app.job(queue="mail", max_attempts=5, retry=Exponential(first=1, cap=60))
async def send_receipt(customer: str, amount: int) -> str:
    return f"receipt of {amount} sent to {customer}@example.org"


@app.job
def ask_for_review(customer: str) -> None:
    send_receipt.submit(customer, 0)
