"""What a type checker must accept, and what it must take each thing for."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from foliot import Exponential, Fixed, Foliot, Handle, Jobs, JobState, Priority
from foliot.client.function import Prepared

app = Foliot("sqlite://:memory:")
jobs = Jobs(queue="mail", prefix="mail.")


@app.job
def add(a: int, b: int = 1) -> int:
    return a + b


@app.job(
    kind="send",
    queue="mail",
    priority=Priority.HIGH,
    max_attempts=5,
    timeout=timedelta(seconds=30),
    retry=Exponential(first=1),
    requires={"gpu", "region:eu"},
    version=2,
    tags=["a"],
    ignore_result=False,
    expires=3600,
    namespace="shop",
)
async def send(to: str, *, subject: str | None = None) -> list[str]:
    return [to, subject or ""]


@jobs.job
def nothing() -> None: ...


app.include(jobs, "shop.mail")
app.autodiscover("shop")

assert_type(add(1), int)
assert_type(add.submit(1, b=2), Handle[int])
assert_type(add.submit(1).result(timeout=5), int)
assert_type(add.prepare(1), Prepared)
called = send("a")
_ = assert_type(called, Coroutine[Any, Any, list[str]])
assert_type(send.submit("a", subject=None).result(), list[str])
assert_type(nothing.submit().result(), None)
assert_type(app.submit_many([add.prepare(1), send.prepare("a")]), list[Handle[Any]])
assert_type(add.submit(1).change(priority=1, delay=5, tags=("a",)), JobState)
assert_type(add.submit(1).status(), JobState)

send.options(
    delay=timedelta(minutes=1),
    run_at=None,
    priority=3,
    queue="slow",
    key="order-42",
    key_mode="debounce",
    idempotency_key="request-1",
    tags={"vip"},
    timeout=30,
    max_attempts=2,
    retry=Fixed(5),
    expires=datetime.now(UTC),
    namespace="shop",
    ordering_key="account-1",
    fair_key="customer-1",
    ignore_result=True,
).submit("a")


async def in_async_code() -> None:
    assert_type(await send("a"), list[str])
    handle = await send.asubmit("a")
    assert_type(handle, Handle[list[str]])
    assert_type(await handle.aresult(), list[str])
    assert_type(await handle.achange(run_at=datetime.now(UTC), payload={"to": "b"}), JobState)
