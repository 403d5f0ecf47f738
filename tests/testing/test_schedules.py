"""Schedules in the tests of other projects: they fire when the test moves the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from foliot import Foliot, current_job
from foliot.testing import Harness, ManualClock


def test_a_schedule_fires_at_each_of_its_times(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[datetime] = []

    @foliot_app.job
    def tick() -> None:
        seen.append(foliot.clock.now())

    start = foliot.clock.now()
    foliot_app.schedule("daily", tick.prepare(), "every day at 3am")
    assert foliot.run_until_idle() == 0
    assert foliot.advance("3 days") == 3
    first = start.replace(hour=3, minute=0, second=0, microsecond=0)
    first += timedelta(days=0 if first > start else 1)
    assert seen == [first + timedelta(days=day) for day in range(3)]
    assert [job.state for job in foliot.jobs(tick)] == ["succeeded"] * 3


def test_what_the_code_declares_is_there(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(schedule="*/10 * * * *")
    def tidy() -> int | None:
        nominal = current_job().nominal_at
        return None if nominal is None else int(nominal.timestamp())

    # It is whatever time of day: one of the six may be within the first minute.
    assert foliot.advance("1 minute") + foliot.advance("59 minutes") == 6
    ran = foliot.jobs(tidy)
    assert [foliot.result(job) for job in ran] == [job.extras.nominal for job in ran]
    handle = foliot_app.get_schedule("tidy")
    assert [answer.state for answer in handle.fires()[-6:]] == ["succeeded"] * 6


def test_more_runs_than_would_be_taken_for_endless(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job(ignore_result=True)
    def tick() -> None: ...

    foliot_app.schedule("often", tick.prepare(), "every 1 second", overlap="allow")
    assert foliot.advance("20 minutes") >= 1200


def test_a_clock_that_leaps_over_times_leaves_them_to_the_rule_for_misfires(
    foliot: Harness, foliot_app: Foliot
) -> None:
    @foliot_app.job
    def tick() -> None: ...

    foliot.clock.advance((900 - foliot.clock.now().timestamp()) % 3600)  # far from the hour
    for rule in ("skip", "latest", "all"):
        foliot_app.schedule(rule, tick.prepare(), "0 * * * *", misfire=rule, overlap="allow")
    foliot.advance("1 minute")
    before = len(foliot.jobs(tick))
    foliot.clock.advance(3 * 3600)
    assert foliot.run_until_idle() == 4  # one, and three
    assert len(foliot.jobs(tick)) == before + 4

    def reasons(name: str) -> list[str]:
        answers = foliot_app.get_schedule(name).fires()[-3:]
        return [answer.reason or str(answer.state) for answer in answers]

    assert reasons("skip") == ["misfire"] * 3
    assert reasons("latest") == ["coalesced", "coalesced", "succeeded"]
    assert reasons("all") == ["succeeded"] * 3


def test_a_run_counts_from_the_end_of_the_last(foliot: Harness, foliot_app: Foliot) -> None:
    seen: list[datetime] = []

    @foliot_app.job
    def work() -> None:
        seen.append(foliot.clock.now())
        foliot.clock.advance(30)

    foliot_app.schedule("poll", work.prepare(), after_completion="1m")
    foliot.advance("5 minutes")
    waits = [after - before for before, after in pairwise(seen)]
    assert waits and all(timedelta(seconds=90) <= wait <= timedelta(seconds=92) for wait in waits)


def test_inline_mode_leaves_schedules_alone(foliot_app: Foliot) -> None:
    ran: list[str] = []

    @foliot_app.job(schedule="* * * * * *")
    def tick() -> None:
        ran.append("tick")

    @foliot_app.job
    def once() -> None:
        ran.append("once")

    with foliot_app.inline():
        foliot_app.schedule("other", tick.prepare(), "* * * * * *", overlap="allow")
        once.options(delay=86_400).submit()
        once.submit()
    assert ran == ["once", "once"]


def test_a_result_is_handed_to_the_next_run(foliot: Harness, foliot_app: Foliot) -> None:
    @foliot_app.job
    def count() -> int:
        last = current_job().last_result
        return 1 if last is None else int(last) + 1

    foliot_app.schedule("count", count.prepare(), "0 * * * *", carry_result=True)
    foliot.advance(timedelta(hours=4))
    assert [foliot.result(job) for job in foliot.jobs(count)][-1] == len(foliot.jobs(count))


def test_the_clock_begins_where_the_test_says(foliot_app: Foliot) -> None:
    clock = ManualClock(datetime(2026, 3, 29, 0, 30, tzinfo=UTC))

    @foliot_app.job
    def tick() -> None: ...

    with Harness(foliot_app, clock=clock) as foliot:
        foliot_app.schedule("gap", tick.prepare(), "30 2 * * *", timezone="Europe/Berlin")
        assert foliot.advance("1 hour") == 1
        [job] = foliot.jobs(tick)
        # 02:30 does not exist that day: it runs when the clocks have gone forward.
        assert job.run_at == datetime(2026, 3, 29, 1, tzinfo=UTC)
