"""A small shop: mails, thumbnails, reports, and a payment provider with bad days."""

from __future__ import annotations

import asyncio
import hashlib

from foliot import Exponential, Foliot, current_job

app = Foliot()


@app.job(queue="mail", max_attempts=5, retry=Exponential(first=0.2, cap=1))
async def send_email(to: str, subject: str) -> str:
    await asyncio.sleep(0.05 + len(to) % 7 / 20)
    return f"sent {subject!r} to {to}"


@app.job(queue="media")
def make_thumbnail(picture: str) -> str:
    digest = picture.encode()
    for _ in range(60_000):
        digest = hashlib.sha256(digest).digest()
    return f"{picture} is {digest.hex()[:8]}.webp"


@app.job(queue="payments", max_attempts=4, retry=Exponential(first=0.3, cap=0.6))
async def charge_card(order: int) -> str:
    """The provider answers on the third call."""
    await asyncio.sleep(0.1)
    if current_job().attempt < 3:
        raise ConnectionError("the payment provider does not answer")
    return f"order {order} is paid"


@app.job(queue="payments", max_attempts=2, retry=Exponential(first=0.1, cap=0.2))
async def charge_expired_card(order: int) -> str:
    raise ValueError(f"the card of order {order} has expired")


@app.job(queue="reports")
async def daily_report(day: str) -> dict[str, int]:
    await asyncio.sleep(0.4)
    return {"orders": len(day) * 7, "refunds": 2}


@app.job(queue="reports", schedule={"name": "count-stock", "expression": "every 2 seconds"})
async def count_stock() -> int:
    """Declared here, made by the workers when they start."""
    await asyncio.sleep(0.2)
    return 42


@app.job(queue="warehouse")
async def pick(order: int) -> list[str]:
    """The first step of a workflow: each of what it returns becomes a step of its own."""
    await asyncio.sleep(0.3)
    return [f"{item} of order {order}" for item in ("clock", "train", "foliot")]


@app.job(queue="warehouse")
async def pack(item: str) -> str:
    await asyncio.sleep(len(item) % 7 / 5)
    return f"{item}, in paper"


@app.job(queue="warehouse")
async def ship(parcels: list[str]) -> str:
    await asyncio.sleep(0.3)
    return f"{len(parcels)} parcels"


@app.job(queue="reports")
async def endless_export() -> None:
    """Somebody will cancel it."""
    await asyncio.sleep(3600)
