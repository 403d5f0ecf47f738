"""`foliot doctor`: what an operator should know of a store before it matters."""

from __future__ import annotations

from collections.abc import Iterator

from foliot.cli.ask import ask
from foliot.cli.diagnosis import HELP, Facts, Finding, diagnose, gather
from foliot.cli.options import DEFAULT_OPTIONS, Options
from foliot.cli.output import print_json, print_table
from foliot.model.session import Session
from foliot.shown import redact
from foliot.store.port import Grade, Store

_OLD_TRANSACTION = 300.0
_MANY_DEAD_TUPLES = 500_000
_OLD_QUEUE = 60.0
_CLOCK_OFFSET = 2.0
_FEW_DAYS = 2


def doctor(*, options: Options = DEFAULT_OPTIONS) -> int:
    """Examine the store: durability, versions, health. Exit code 1: something is bad."""
    settings = options.load().settings.store
    grade, facts = ask(options, _examine)
    findings = [*find(grade, facts.sessions), *diagnose(facts)]
    bad = any(finding.verdict == "bad" for finding in findings)
    if options.json:
        print_json(
            {"url": redact(settings.url), "healthy": not bad, "grade": grade, "findings": findings}
        )
    else:
        print_table(
            ("", "what", "found", "advice"),
            [
                (finding.verdict, finding.what, finding.value, finding.advice)
                for finding in findings
            ],
        )
    return 1 if bad else 0


async def _examine(store: Store) -> tuple[Grade, Facts]:
    await store.listen(lambda _: None)
    return await store.upkeep.grade(), await gather(store)


def find(grade: Grade, sessions: list[Session]) -> Iterator[Finding]:
    yield Finding("ok", "store", f"{grade.engine} {grade.version}, schema {grade.schema}")
    yield Finding("ok" if grade.durable else "bad", "durability", grade.durability)
    yield _connection(grade)
    live = [session for session in sessions if session.live]
    yield Finding(
        "ok" if live else "look",
        "processes",
        f"{len(live)} alive",
        "" if live else "start one: foliot worker",
    )
    yield from _queue(grade)
    yield from _table(grade)
    yield _verdict(
        abs(grade.clock_offset) < _CLOCK_OFFSET,
        "clock",
        f"{grade.clock_offset:+.3f} s from the store's",
        "jobs follow the store's clock; set this host's right",
    )


def _connection(grade: Grade) -> Finding:
    hears = "wake-ups are heard" if grade.listening else "no wake-ups: polling only"
    advice = "" if grade.listening else "set store.listen_url to the server itself"
    way = "a file of this machine" if grade.pooler == "none" else grade.pooler
    return Finding("ok" if grade.listening else "look", "connection", f"{way}, {hears}", advice)


def _queue(grade: Grade) -> Iterator[Finding]:
    yield Finding("ok", "jobs", f"{grade.live_jobs} live, {grade.ready_jobs} ready")
    age = grade.queue_age
    yield _verdict(
        age is None or age < _OLD_QUEUE,
        "queue age",
        "empty" if age is None else f"the first ready job has waited {age:.1f} s",
        "more workers, or a worker for that queue",
    )
    yield _verdict(
        grade.dead_jobs == 0,
        "dead letters",
        str(grade.dead_jobs),
        "jobs that failed for good wait for you",
    )


def _table(grade: Grade) -> Iterator[Finding]:
    if grade.oldest_transaction is not None:
        yield _verdict(
            grade.oldest_transaction < _OLD_TRANSACTION,
            "oldest transaction",
            f"{grade.oldest_transaction:.0f} s, {grade.oldest_transaction_by}",
            "it keeps dead rows from being removed: end it",
        )
    if grade.dead_tuples is not None:
        yield _verdict(
            grade.dead_tuples < _MANY_DEAD_TUPLES,
            "dead tuples",
            f"{grade.dead_tuples} in jobs",
            "is autovacuum on, and no old transaction open?",
        )
    if grade.history_days_ahead is not None:
        enough = grade.history_days_ahead >= _FEW_DAYS
        advice = "" if enough else f"somebody must make them: {HELP}"
        verdict = "ok" if enough else "bad"
        yield Finding(verdict, "history", f"{grade.history_days_ahead} days made ahead", advice)


def _verdict(good: bool, what: str, value: str, advice: str) -> Finding:
    return Finding("ok" if good else "look", what, value, "" if good else advice)
