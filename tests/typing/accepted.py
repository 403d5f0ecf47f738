"""What a type checker must accept, and what it must take each thing for."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from foliot import (
    Draft,
    Event,
    Exponential,
    Fixed,
    Foliot,
    Handle,
    Jobs,
    JobState,
    Priority,
    Schedule,
    ScheduleHandle,
    ScheduleState,
)
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


@app.job(schedule="*/5 * * * *")
def tidy() -> None: ...


@app.on("job.dead", kinds=[add, "send"], queues={"mail"}, max_attempts=3, retry=Fixed(1))
@jobs.on("job.succeeded")
def page_ops(event: Event) -> str:
    return event.data["error"] or event.subject


@app.on("job.cancelled", kinds=[add])
@app.on("worker.lost", name="lost", queue="urgent", timeout=30)
async def note_lost(event: Event) -> None: ...


assert_type(page_ops(Event(id="a", name="job.dead", subject="b", at=datetime.now(UTC))), str)


@jobs.job(
    queue="mail",
    schedule=[
        "every day at 9am",
        {
            "name": "weekly",
            "expression": "0 9 * * MON",
            "timezone": "Europe/Berlin",
            "overlap": "buffer_all",
            "buffer": 5,
            "arguments": {"to": "a"},
        },
        {"name": "poll", "after_completion": timedelta(minutes=5)},
    ],
)
async def digest(to: str = "b") -> str:
    return to


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

scheduled = app.schedule(
    "standup",
    send.prepare("a"),
    "every weekday at 9am",
    timezone="Europe/Berlin",
    dst_gap="skip",
    dst_overlap="both",
    start=datetime.now(UTC),
    spread="5m",
    jitter=30,
    misfire="all",
    misfire_window=timedelta(hours=2),
    calendars=["holidays"],
    tags={"shop"},
    end=None,
)
assert_type(scheduled, ScheduleHandle)
assert_type(scheduled.get(), Schedule)
assert_type(scheduled.status(), ScheduleState)
assert_type(scheduled.update("0 9 * * *", job=add.prepare(1), overlap="allow", end=None), Schedule)
assert_type(scheduled.trigger(), Handle[Any] | None)
assert_type(scheduled.pause("note"), bool)
assert_type(app.draft("a", add.prepare(1), "@daily"), Draft)
assert_type(app.schedule_many([app.draft("a", add.prepare(1), "@daily")]), list[ScheduleHandle])
assert_type(app.schedule("poll", nothing.prepare(), after_completion="10m"), ScheduleHandle)
assert_type(app.preview("@daily", timezone="UTC").fires[0].note, str | None)
assert_type(app.pause_schedules(tag="shop"), list[str])

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
    assert_type(await app.aschedule("a", add.prepare(1), "@daily"), ScheduleHandle)
    assert_type(await handle.achange(run_at=datetime.now(UTC), payload={"to": "b"}), JobState)
