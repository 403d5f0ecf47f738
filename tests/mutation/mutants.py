"""Mutants: small wrongs put into hot functions, and the tests that must notice each of them.

A mutant is a text in the body of one function, or of one statement, and what stands there instead. Where the text is
gone, the function has changed: adapt its mutants.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec


class Mutant(msgspec.Struct, frozen=True):
    """`name` is of the function or statement in `file`; `old` is replaced wherever it stands there."""

    file: str
    name: str
    old: str
    new: str
    often: bool = False  # tried with every run of the tests

    def __str__(self) -> str:
        return f"{self.name}: {self.old.strip()[:40]!r} -> {self.new.strip()[:40]!r}"

    def find(self, package: Path) -> tuple[str, str, str]:
        """What is in the file before the function, the function, and what comes after it."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        start, end = _place(text, self.name, sql=path.suffix == ".sql")
        body = text[start:end]
        assert self.old in body, f"{self.name} has changed: adapt its mutants, {self.old!r} is gone"
        return text[:start], body, text[end:]

    def put_into(self, package: Path) -> None:
        """Change the copy of the package."""
        before, body, after = self.find(package)
        changed = before + body.replace(self.old, self.new) + after
        (package / self.file).write_text(changed, encoding="utf-8")


def _place(text: str, name: str, *, sql: bool) -> tuple[int, int]:
    if sql:
        start = text.index(f"-- name: {name}\n")
        following = text.find("\n-- name: ", start)
        return start, len(text) if following < 0 else following
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, functions) and node.name == name and node.end_lineno is not None:
            return lines[node.lineno - 1], lines[node.end_lineno]
    raise AssertionError(f"there is no function {name}")


# Where a function is, the tests that know it, and its mutants.
CLAIM = ("store/sqlite/sql/claim.sql", "claim_jobs")
PARTITION_OF = ("ids.py", "partition_of")
LONGEST = ("model/retry.py", "longest")
FAILURE = ("worker/run.py", "failure")
RETRIED = ("worker/run.py", "_retried")
WAIT = ("worker/run.py", "wait")
BIND = ("registry.py", "bind")
SETTLE = ("worker/lanes.py", "settle")
ENDED = ("worker/awaited.py", "ended")
DECIDE = ("model/door.py", "decide")
LOOK = ("model/door.py", "_look")
ALLOWANCE = ("model/limit.py", "allowance")
SLOTS_OF = ("store/limiting.py", "slots_of")
PICK = ("store/sqlite/sql/gates.sql", "pick_jobs")
ADMIT_HELD = ("store/sqlite/sql/limits.sql", "admit_held")
LIMITS_DUTY = ("scheduler/limits.py", "tick")

TESTS = {
    CLAIM: ("tests/store/test_claim.py", "-k", "sqlite-1"),
    PARTITION_OF: ("tests/test_ids.py",),
    LONGEST: ("tests/test_retry.py",),
    FAILURE: ("tests/worker/test_run.py",),
    RETRIED: ("tests/worker/test_run.py",),
    WAIT: ("tests/worker/test_run.py",),
    BIND: ("tests/client/test_sdk.py", "-k", "TestBadInput and argument"),
    SETTLE: ("tests/worker/test_cycle.py", "-k", "lanes"),
    ENDED: ("tests/worker/test_awaited.py",),
    DECIDE: ("tests/test_limit_model.py",),
    LOOK: ("tests/test_limit_model.py",),
    ALLOWANCE: ("tests/test_limit_model.py",),
    SLOTS_OF: ("tests/store/test_limits.py", "-k", "sqlite-1"),
    PICK: (
        "tests/store/test_limits_together.py",
        "tests/store/test_limits_lanes.py",
        "tests/store/test_limits.py",
        "-k",
        "sqlite-1",
    ),
    ADMIT_HELD: ("tests/store/test_limits.py", "-k", "sqlite-1"),
    LIMITS_DUTY: ("tests/worker/test_limits_duty.py",),
}

MUTANTS = [
    Mutant(*CLAIM, "j.band, j.rank, j.id", "j.rank, j.band, j.id", often=True),
    Mutant(*CLAIM, "j.band, j.rank, j.id", "j.band, j.rank DESC, j.id"),
    Mutant(*CLAIM, "j.state = 'ready'", "j.state <> 'running'"),
    Mutant(*CLAIM, "LIMIT :quota", "LIMIT :quota + 1"),
    Mutant(*CLAIM, "q.paused_at IS NOT NULL", "q.paused_at IS NULL"),
    Mutant(*CLAIM, "fence = fence + 1", "fence = 1"),
    Mutant(*PARTITION_OF, "// SLOTS", "// (SLOTS - 1)", often=True),
    Mutant(*PARTITION_OF, "* partitions // SLOTS", "% partitions"),
    Mutant(*PARTITION_OF, "id[15:18]", "id[16:18]"),
    Mutant(*LONGEST, "failures - 1", "failures", often=True),
    Mutant(*LONGEST, "min(self.cap", "max(self.cap"),
    Mutant(*LONGEST, "min(failures - 1, 64)", "(failures - 1)"),
    Mutant(*LONGEST, "self.first *", ""),
    Mutant(*RETRIED, "None if job.last_attempt", "None if not job.last_attempt", often=True),
    Mutant(*FAILURE, "job.losses + 1 >= loss_limit", "job.losses >= loss_limit", often=True),
    Mutant(*WAIT, "return error.after", "pass"),
    Mutant(*WAIT, "error.after is not None", "error.after"),
    Mutant(*WAIT, "job.attempt - job.losses", "1"),
    Mutant(*FAILURE, "End.CANCEL, reason=reason_of(error)", "End.SUCCEED, reason=reason_of(error)"),
    Mutant(*BIND, "definition.decode(payload)", "pass", often=True),
    Mutant(*BIND, "RecursionError", "KeyError"),
    Mutant(*BIND, "TypeError", "KeyError"),
    Mutant(*SETTLE, "given[number] < asked", "given[number] <= asked", often=True),
    Mutant(*SETTLE, "given[number] < asked", "not given[number]"),
    Mutant(*SETTLE, "room -= given[number]", "pass"),
    Mutant(*ENDED, "if outcome.final", "if not outcome.final", often=True),
    Mutant(*ENDED, "self._marks.pop(mark, None) is not None", "True"),
    Mutant(*DECIDE, "gate.take()", "pass", often=True),
    Mutant(
        *DECIDE,
        "for gate in gates if not gate.has_more",
        "for gate in gates[1:] if not gate.has_more",
    ),
    Mutant(*DECIDE, ">= room", "> room"),
    Mutant(*DECIDE, "not one.fits or ", ""),
    Mutant(*LOOK, "self._free > 0", "self._free >= 0"),
    Mutant(*LOOK, "self.tokens >= _ONE", "self.tokens > 0"),
    Mutant(*ALLOWANCE, "most // (2 * max(1, sessions))", "most // max(1, sessions)"),
    Mutant(*ALLOWANCE, "running * 2 <= most", "running <= most"),
    Mutant(*SLOTS_OF, " and o.id not in late", ""),
    Mutant(*SLOTS_OF, "(o.id, o.fence): o.gates", "id(o): o.gates"),
    Mutant(*PICK, "'key:' || json_extract(j.extras, '$.limit_key')", ":name"),
    Mutant(*PICK, "ORDER BY j.band, j.rank, j.id", "ORDER BY j.id DESC"),
    Mutant(*PICK, "j.id) >= (:lane, :band, :rank, :id)", "j.id) >= (j.lane, :band, 0, '')"),
    Mutant(*ADMIT_HELD, "q.paused_at IS NOT NULL", "false"),
    Mutant(*LIMITS_DUTY, "_EVERY if self._limited else _SELDOM", "_SELDOM"),
]
