"""Identity and chance. The only module that draws random numbers.

A job's id is a UUIDv7 in text: 48 bits of milliseconds, a 12-bit slot that says where the job lives,
then a counter, then chance. Ids of one process rise strictly, so jobs submitted together keep their order;
ids made in the same millisecond share a slot, so a batch lands in one partition.
"""

from __future__ import annotations

import os
import random
from hashlib import blake2b, md5
from threading import Lock
from typing import NewType

from foliot.clock import Clock, SystemClock

JobId = NewType("JobId", str)
SessionId = NewType("SessionId", str)
ScheduleId = NewType("ScheduleId", str)
Mark = NewType("Mark", str)  # the end of a job's id: enough to know it again, not to find it

SLOTS = 4096
_COUNTER_BITS = 22
_CHANCE_BITS = 62 - _COUNTER_BITS
MARK = 9  # characters, all of them chance
_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)


class Ids:
    """A source of ids and chance. Seeded, it gives the same sequence every time."""

    def __init__(self, *, clock: Clock | None = None, seed: int | None = None) -> None:
        self._clock = clock or SystemClock()
        self._random = random.Random(seed if seed is not None else os.urandom(32))
        self._lock = Lock()
        self._millisecond = 0
        self._slot = 0
        self._counter = 0
        if seed is None:
            os.register_at_fork(after_in_child=self._reseed)

    def job(self, slot: int | None = None) -> JobId:
        """A new job id; `slot` is the job's home, else chance decides."""
        with self._lock:
            now = int(self._clock.now().timestamp() * 1000)
            self._counter += 1
            if now > self._millisecond or self._counter >> _COUNTER_BITS:
                self._millisecond = max(now, self._millisecond + 1)
                self._slot = self._random.getrandbits(12)
                self._counter = 0
            number = (
                (self._millisecond << 80)
                | _VERSION_AND_VARIANT
                | ((self._slot if slot is None else slot) << 64)
                | (self._counter << _CHANCE_BITS)
                | self._random.getrandbits(_CHANCE_BITS)
            )
        return JobId(_text(number))

    def session(self) -> SessionId:
        return SessionId(_text(self._random.getrandbits(128)))

    def jitter(self, seconds: float, share: float = 0.2) -> float:
        """`seconds`, give or take `share` of it, so that processes do not march in step."""
        return seconds * (1 + share * (2 * self._random.random() - 1))

    def up_to(self, seconds: float) -> float:
        """Anywhere between zero and `seconds`: full jitter."""
        return seconds * self._random.random()

    def _reseed(self) -> None:
        # A forked child would repeat its parent's ids.
        self._random.seed(os.urandom(32))
        self._lock = Lock()


def slot_of(id: str) -> int:
    """The home slot written into a job's id."""
    return int(id[15:18], 16)


def slot_of_key(*parts: str) -> int:
    """The home slot of whatever is named by `parts`: equal parts, equal slot, on every machine."""
    digest = blake2b("\0".join(parts).encode(), digest_size=2).digest()
    return int.from_bytes(digest, "big") % SLOTS


def schedule_id(namespace: str, name: str) -> ScheduleId:
    """Follows from the name: nobody has to look it up, and no name is used twice."""
    digits = blake2b(f"{namespace}\0{name}".encode(), digest_size=16).hexdigest()
    slot = slot_of_key(namespace, name)
    return ScheduleId(f"{digits[:8]}-{digits[8:12]}-8{slot:03x}-8{digits[17:20]}-{digits[20:]}")


def fire_id(schedule: str, nominal: int) -> JobId:
    """Of the job that a schedule becomes at a nominal time, in seconds: made again, it is the same. The statements that
    fire make it the same way."""
    return JobId(
        _dashed(f"{nominal * 1000:012x}7{schedule[15:18]}8{_chance(schedule, nominal)[:15]}")
    )


def workflow_id(namespace: str, name: str, key: str) -> JobId:
    """Of the workflow that is submitted under a key: made again, it is the same."""
    told = f"workflow\0{namespace}\0{name}\0{key}"
    digits = blake2b(told.encode(), digest_size=16).hexdigest()
    slot = slot_of_key("workflow", namespace, name, key)
    # Its time says nothing; it lies before 2005, so that it is in nobody's way.
    return JobId(f"00{digits[:6]}-{digits[8:12]}-7{slot:03x}-8{digits[17:20]}-{digits[20:]}")


def inner_id(job: str) -> JobId:
    """Of the workflow that a job stands for: made again, it is the same, and lives where the job does."""
    digits = blake2b(f"inner\0{job}".encode(), digest_size=8).hexdigest()
    return JobId(f"{job[:18]}-8{digits[1:4]}-{digits[4:]}")


def event_id(home: str, at: int, number: int, name: str, subject: str) -> JobId:
    """Of something that happened, at so many microseconds since 1970: made again, it is the same. Ids rise with the
    time, then with the number, and live where `home` does."""
    told = f"{name}\0{subject}\0{at}\0{number}"
    chance = blake2b(told.encode(), digest_size=8).hexdigest()[:MARK]
    digits = f"{at // 1000:012x}7{home[15:18]}8{number % (1 << 24):06x}{chance}"
    return JobId(_dashed(digits))


def hook_id(event: str, hook: str) -> JobId:
    """Of the job in which a hook is told of an event."""
    chance = blake2b(f"{event}\0{hook}".encode(), digest_size=8).hexdigest()[:MARK]
    return JobId(event[:-MARK] + chance)


def home_id(slot: int) -> str:
    """An id for what has none of its own, and lives in this slot."""
    return f"00000000-0000-7{slot:03x}-8000-000000000000"


def fire_jitter(schedule: str, nominal: int, seconds: int) -> int:
    """How much later than planned that job is due, at most so many seconds: made again, it is the same."""
    return int(_chance(schedule, nominal)[15:23], 16) % (seconds + 1)


def trigger_id(*parts: str) -> int:
    """The number of a trigger: the same times, the same number."""
    digest = blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def phase_of(schedule: str, seconds: int) -> int:
    """The place of a schedule in a spread of so many seconds."""
    return int.from_bytes(blake2b(schedule.encode(), digest_size=8).digest(), "big") % seconds


def partition_of(id: str, partitions: int) -> int:
    return int(id[15:18], 16) * partitions // SLOTS


def mark_of(id: str) -> Mark:
    """What hints call the job. Two jobs of one mark cost a look in vain, once in billions."""
    return Mark(id[-MARK:])


def partition_of_slot(slot: int, partitions: int) -> int:
    return slot * partitions // SLOTS


def milliseconds_of(id: str) -> int:
    """When the id was made, in milliseconds since 1970."""
    return int(id[0:8] + id[9:13], 16)


def is_job_id(text: str) -> bool:
    return (
        len(text) == 36
        and text[8] == text[13] == text[18] == text[23] == "-"
        and text[14] == "7"
        and all(c in "0123456789abcdef-" for c in text)
    )


def _chance(schedule: str, nominal: int) -> str:
    return md5(f"{schedule}:{nominal}".encode(), usedforsecurity=False).hexdigest()


def _text(number: int) -> str:
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
