"""Hooks: functions that workers tell what happened, declared in code, and listening as long as it declares them."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import msgspec
import pytest

from client.conftest import run_in_thread
from foliot import Event, Fixed, Foliot, Jobs, current_job
from foliot.commands import announce
from foliot.errors import InvalidValue
from foliot.hook_sync import Heard, find_doubts, sync_hooks
from foliot.model.definition import StoredDefinition
from foliot.model.event import EVENTS, OF_KINDS, Listener
from foliot.model.session import Session
from foliot.registry import Registry
from foliot.store.definitions import Definitions
from support.fleet import eventually

StartWorker = Callable[[], None]
PATIENCE = 20


def _listeners(app: Foliot) -> list[Listener]:
    async def ask() -> list[Listener]:
        return await (await app._portal.store()).events.listeners()

    return app._portal.call(ask())


def _sync(app: Foliot, registry: Registry | None = None) -> Heard | None:
    async def ask() -> Heard | None:
        return await sync_hooks(await app._portal.store(), registry or app.registry)

    return app._portal.call(ask())


def test_a_hook_is_told_of_a_job_that_has_died(app: Foliot, start_worker: StartWorker) -> None:
    heard: SimpleQueue[tuple[Event, str]] = SimpleQueue()

    @app.job(max_attempts=1, queue="mail")
    def charge(amount: int) -> None:
        raise ValueError(f"no {amount}")

    @app.on("job.dead", kinds=[charge], queues=["mail"], max_attempts=3, retry=Fixed(0.01))
    def page_ops(told: Event) -> None:
        if current_job().attempt < 3:
            raise RuntimeError("the pager is busy")
        heard.put((told, current_job().queue))

    start_worker()
    handle = charge.submit(42)
    event, queue = heard.get(timeout=PATIENCE)
    assert (event.name, event.subject, event.kind) == ("job.dead", handle.id, "charge")
    assert (event.queue, event.namespace) == ("mail", "default")
    assert event.data == {"attempt": 1, "reason": "failed", "error": "ValueError: no 42"}
    assert event.at == handle.job().finished_at
    assert queue == "hooks"
    assert page_ops.__name__ == "page_ops"  # it is the function that was written


def test_an_async_hook_is_told_of_successes_and_one_function_may_listen_to_several(
    app: Foliot, start_worker: StartWorker
) -> None:
    heard: SimpleQueue[str] = SimpleQueue()

    @app.job
    async def fine() -> int:
        return 1

    @app.job(max_attempts=1)
    async def broken() -> None:
        raise ValueError

    @app.on("job.succeeded")
    @app.on("job.dead", queue="urgent")
    async def write(event: Event) -> str:
        heard.put(f"{event.name} {event.kind}")
        return event.id

    start_worker()
    fine.submit()
    broken.submit()
    told = {heard.get(timeout=PATIENCE) for _ in range(2)}
    assert told == {"job.succeeded fine", "job.dead broken"}
    assert app.registry.find("on.job.dead.write").queue == "urgent"


def test_a_worker_that_starts_has_its_hooks_listen_and_says_so_once(app: Foliot) -> None:
    @app.on("worker.lost", name="call.me")
    def note(event: Event) -> None: ...

    @app.on("job.dead", kinds=["b", "a", "a"], queues={"q"}, priority=1, tags=["alarm"])
    def other(event: Event) -> None: ...

    assert _listeners(app) == []
    changed = _sync(app)
    assert str(changed) == "+ on.job.dead.other\n+ on.worker.lost.call.me"
    assert _sync(app) == Heard()
    lost = next(one for one in _listeners(app) if one.listens.event == "worker.lost")
    dead = next(one for one in _listeners(app) if one.listens.event == "job.dead")
    assert (lost.hook, lost.listens.kinds) == ("on.worker.lost.call.me", ())
    assert (dead.listens.kinds, dead.listens.queues) == (("a", "b"), ("q",))
    template = msgspec.json.decode(dead.template)
    assert (template["queue"], template["priority"]) == ("hooks", 1)
    assert template["more"]["tags"] == ["alarm"]


def test_a_worker_names_what_its_hooks_have_chosen_and_nobody_knows(
    app: Foliot,
) -> None:
    async def find() -> list[str]:
        store = await app._portal.store()
        await announce(store, app.registry)
        return await find_doubts(store, app.registry)

    @app.job(queue="mail")
    def charge() -> None: ...

    @app.on("job.dead", kinds=[charge, "chrage"], queues=["mail", "post"])
    def complain(event: Event) -> None: ...

    assert app._portal.call(find()) == [
        "on.job.dead.complain: no app has announced a kind 'chrage' so far: did you mean charge?",
        "on.job.dead.complain: no kind goes to queue 'post' so far, and no live worker serves it by name",
    ]


def test_what_is_known_is_read_once_however_many_hooks_name_kinds(
    app: Foliot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []

    async def find() -> list[str]:
        store = await app._portal.store()
        read = type(store.definitions).all

        async def count(definitions: Definitions) -> list[StoredDefinition]:
            reads.append(definitions)
            return await read(definitions)

        monkeypatch.setattr(type(store.definitions), "all", count)
        return await find_doubts(store, app.registry)

    for number in range(6):

        def complain(event: Event) -> None: ...

        complain.__name__ = f"complain{number}"
        app.on("job.dead", kinds=list("abc"), queues=["post", "mail"])(complain)
    assert len(app._portal.call(find())) == 6 * 5
    assert len(reads) == 1


def test_a_worker_is_told_of_what_nobody_knows_and_of_hooks_that_nobody_runs(
    app: Foliot, caplog: pytest.LogCaptureFixture
) -> None:
    app.queue("stock", strategy="fifo")
    app.limit("queue:warehouse", concurrency=3)
    app.limit("key:customer:*", concurrency=3)

    @app.job(queue="warehouse")
    def pack() -> None: ...

    @app.on("job.dead")
    def complain(event: Event) -> None: ...

    def warnings(*queues: str) -> list[str]:
        own = msgspec.structs.replace(app.settings.worker, queues=queues)
        settings = msgspec.structs.replace(app.settings, worker=own)
        caplog.clear()
        with Foliot(settings=settings) as other:
            other._registry = app.registry
            stop = run_in_thread(other)
            eventually(lambda: any("ready: " in one.message for one in caplog.records))
            stop()
        told = (one for one in caplog.records if one.name == "foliot.process")
        return [one.message for one in told if one.levelname == "WARNING"]

    caplog.set_level("INFO", logger="foliot.process")
    mistyped = "no kind goes to queue 'warehuose' so far: did you mean warehouse?"
    hooks = (
        "hooks of this app go to queue 'hooks', which no live worker serves: "
        "name it in --queues, or start a worker that does"
    )
    assert warnings("stock=2", "warehuose") == [mistyped, hooks]
    assert warnings("warehouse", "hooks") == []
    app.limit("kind:pakc", concurrency=3)
    limit = "limit kind:pakc: no app has announced a kind 'pakc' so far: did you mean pack?"
    assert warnings() == [limit]


def _app_of(module: str, *names: str) -> Registry:
    """What an app knows whose code is in one module: a job, and hooks of these names."""
    app = Foliot(inline=True)

    def job() -> None: ...

    def hook(event: Event) -> None: ...

    for function in (job, hook):
        function.__module__ = module
    app.job(job)
    for name in names:
        app.on("job.dead", name=name)(hook)
    return app.registry


def test_code_that_declares_a_hook_no_longer_takes_none_away_when_it_starts(app: Foliot) -> None:
    """Its duties do, when nobody has run it for long: others may run newer code, and be away for a moment."""
    _sync(app, _app_of("shop", "a", "b"))
    _sync(app, _app_of("bank", "c"))
    _sync(app, _app_of("shop", "b"))
    _sync(app, _app_of("shop"))
    assert [one.hook[-1] for one in _listeners(app)] == ["a", "b", "c"]


def _declare_in(app: Foliot, module: str, tell: Callable[[str], None]) -> Any:
    """A job and a hook, as if they were written in this module."""

    def boom() -> None:
        raise ValueError(module)

    def page(event: Event) -> None:
        tell(module)

    boom.__module__ = page.__module__ = module
    app.on("job.dead")(page)
    return app.job(kind=f"{module}.boom", max_attempts=1)(boom)


def test_of_two_apps_with_a_hook_of_one_name_the_first_has_it_and_the_other_is_told_why(
    app: Foliot, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foliot.worker.hearing._EVERY", 0.1)
    heard: SimpleQueue[str] = SimpleQueue()
    hook = "on.job.dead.page"

    def sessions() -> dict[str, bool]:
        found = app._portal.call(ask())
        named = {one.id: {"billing", "mail"} & set(one.modules) for one in found}
        return {module: hook in one.kinds for one in found if one.live for module in named[one.id]}

    async def ask() -> list[Session]:
        return await (await app._portal.store()).sessions.all()

    with Foliot(settings=app.settings) as other:
        fail = _declare_in(app, "billing", heard.put)
        fail_other = _declare_in(other, "mail", heard.put)
        stop = run_in_thread(app)
        eventually(lambda: sessions() == {"billing": True})
        stop_other = run_in_thread(other)
        [told] = eventually(lambda: [r for r in caplog.records if r.levelname == "ERROR"])
        assert told.getMessage() == (
            "hook on.job.dead.page of module mail is not told anything: a live worker runs one of that name of module "
            'billing; give one of them another: @app.on("job.dead", name="another_name")'
        )
        eventually(lambda: sessions() == {"billing": True, "mail": False})
        for _ in range(3):
            fail.submit()
            fail_other.submit()
        assert {heard.get(timeout=PATIENCE) for _ in range(6)} == {"billing"}
        stop()
        eventually(lambda: [one.origin for one in _listeners(app)] == ["mail"])
        eventually(lambda: sessions() == {"mail": True})
        fail_other.submit()
        assert heard.get(timeout=PATIENCE) == "mail"
        stop_other()


def test_a_hook_that_has_moved_to_another_module_stays(app: Foliot) -> None:
    _sync(app, _app_of("shop", "a"))
    _sync(app, _app_of("shop.alarms", "a"))
    assert _sync(app, _app_of("shop")) == Heard()
    assert [one.origin for one in _listeners(app)] == ["shop.alarms"]


def test_a_collection_has_hooks_that_listen_for_the_app_that_includes_it(
    app: Foliot, start_worker: StartWorker
) -> None:
    heard: SimpleQueue[str] = SimpleQueue()
    jobs = Jobs(queue="mail", prefix="mail.")

    @jobs.job
    def send() -> None: ...

    @jobs.on("job.succeeded", kinds=[send])
    def sent(event: Event) -> None:
        heard.put(event.kind or "")

    module = ModuleType("shop_mail")
    module.__dict__["jobs"] = jobs
    app.include(module)
    definition = app.registry.find("on.job.succeeded.mail.sent")
    assert (definition.queue, definition.listens and definition.listens.kinds) == (
        "hooks",
        ("mail.send",),
    )
    start_worker()
    send.submit()
    assert heard.get(timeout=PATIENCE) == "mail.send"


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_can_be_listened_to(event: str) -> None:
    app = Foliot(inline=True)
    app.on(event)(_hook)  # type: ignore[arg-type]
    assert app.registry.kinds == (f"on.{event}._hook",)


def _hook(event: Event) -> None: ...


@pytest.mark.parametrize(
    ("event", "hint"),
    [
        ("job.ded", "did you mean job.dead?"),
        ("job.failed", "did you mean job.dead?"),
        ("dead", "there are job.succeeded, job.dead, job.cancelled"),
        ("JOB.DEAD", "there are"),
        ("", "there are"),
        ("job.dead\n", "did you mean job.dead?"),
        ("job.*", "there are"),
        (None, "there are"),
        (7, "there are"),
        (_hook, "there are"),
    ],
)
def test_what_is_no_event_is_refused_with_those_there_are(event: Any, hint: str) -> None:
    with pytest.raises(InvalidValue, match="is not an event") as caught:
        Foliot(inline=True).on(event)
    assert hint in str(caught.value.hint)
    assert "breaker.closed" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kinds": "charge"}, "kinds: 'charge' is not a list of names"),
        ({"kinds": []}, "kinds: [] names none, so nothing would be heard"),
        ({"kinds": ["*"]}, "kinds: '*' is not 1 to 200 letters"),
        ({"kinds": [None]}, "kinds: None is not 1 to 200 letters"),
        (
            {"kinds": ["charge", "on.job.dead.page"]},
            "kinds: 'on.job.dead.page' is a kind of hooks, and of their jobs nobody is told",
        ),
        (
            {"kinds": [lambda event: None]},
            "is a function and no job, for which @app.job stands above it",
        ),
        ({"queues": ["a b"]}, "queues: 'a b' is not 1 to 200 letters"),
        ({"queues": 5}, "queues: 5 is not a list of names"),
        ({"kinds": [f"k{n}" for n in range(33)]}, "kinds has 33 names, more than 32"),
        ({"name": "a b"}, "name: 'a b' is not 1 to 200 letters"),
        ({"name": "n" * 200}, "is not 1 to 200 letters"),
        ({"kind": "x"}, "on: 'kind' is not an option of a hook, for example @app.on("),
        ({"max_attempt": 3}, "did you mean max_attempts?"),
        ({"namespace": "eu"}, "on: 'namespace' is not an option of a hook"),
        ({"max_attempts": 0}, "max_attempts: 0 is not a whole number"),
        ({"retry": "soon"}, "retry: 'soon' is not a retry policy"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    app = Foliot(inline=True)
    with pytest.raises(InvalidValue) as caught:
        app.on("job.dead", **options)(_hook)
    assert problem in str(caught.value)
    assert len(app.registry) == 0


@pytest.mark.parametrize("event", sorted(set(EVENTS) - set(OF_KINDS)))
@pytest.mark.parametrize("choice", ["kinds", "queues"])
def test_what_has_no_kind_cannot_be_chosen_by_it(event: Any, choice: str) -> None:
    options: dict[str, Any] = {choice: ["x"]}
    with pytest.raises(InvalidValue, match=f"{event} has none"):
        Foliot(inline=True).on(event, **options)(_hook)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b: None,
        lambda *, event: None,
        _hook.__name__,
        print,
        int,
    ],
)
def test_what_cannot_be_told_an_event_is_no_hook(function: Any) -> None:
    with pytest.raises(InvalidValue):
        Foliot(inline=True).on("job.dead")(function)


def test_two_functions_of_one_name_cannot_both_listen_under_it() -> None:
    app = Foliot(inline=True)

    def other(event: Event) -> None: ...

    app.on("job.dead", name="_hook")(other)
    with pytest.raises(InvalidValue, match=r"name=\"another_name\""):
        app.on("job.dead")(_hook)
    app.on("job.succeeded")(_hook)
    app.on("job.succeeded")(_hook)  # the same again, as in a module that is loaded again


def test_a_job_cannot_be_called_as_hooks_are() -> None:
    with pytest.raises(InvalidValue, match=r"begins with on\., as only kinds of hooks do"):
        Foliot(inline=True).job(kind="on.sale")(_hook)
