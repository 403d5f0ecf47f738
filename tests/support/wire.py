"""PostgreSQL's protocol, as far as a proxy must understand it."""

from __future__ import annotations

from collections import deque

Message = tuple[str, bytes]  # its type, and all of its bytes

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


def take_messages(buffer: bytearray) -> list[Message]:
    """Remove the whole messages from the front of the buffer."""
    messages: list[Message] = []
    start = 0
    while len(buffer) - start >= 5:
        end = start + 1 + int.from_bytes(buffer[start + 1 : start + 5])
        if end > len(buffer):
            break
        messages.append((chr(buffer[start]), bytes(buffer[start:end])))
        start = end
    del buffer[:start]
    return messages


def take_startup(buffer: bytearray) -> tuple[int, bytes] | None:
    """Remove a connection's first message, which has no type: its code, and all of its bytes."""
    if len(buffer) < 8 or len(buffer) < (size := int.from_bytes(buffer[:4])):
        return None
    message = bytes(buffer[:size])
    del buffer[:size]
    return int.from_bytes(message[4:8]), message


class Exchange:
    """What one client has asked and the server has not yet answered."""

    def __init__(self) -> None:
        self.ran: list[str] = []  # the statements done since the last transaction ended
        self.failed = False  # one of them, since the last ReadyForQuery
        self.idle = True  # nothing asked, no transaction open
        self._asked: deque[tuple[str, str]] = deque()  # (Execute, Query or Sync; its statement)
        self._statements: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._unfinished = False  # asked, with no Sync yet
        self._copying = False

    def asks(self, kind: str, message: bytes) -> None:
        self.idle = False
        if kind == "P":
            name, text = message[5:].split(b"\0", 2)[:2]
            self._statements[name] = text
        elif kind == "B":
            portal, name = message[5:].split(b"\0", 2)[:2]
            self._portals[portal] = self._statements.get(name, b"")
        elif kind == "E":
            portal = message[5:].split(b"\0", 1)[0]
            self._asked.append(("E", self._portals.get(portal, b"").decode(errors="replace")))
        elif kind in "QF":
            self._asked.append(("Q", message[5:-1].decode(errors="replace")))
        elif kind == "S" and not self._copying:
            self._asked.append(("S", ""))
            self._unfinished = False
        elif kind in "cf":
            self._copying = False
        if kind in "PBDEC":
            self._unfinished = True

    def answers(self, kind: str, message: bytes) -> None:
        if kind in "CIs" and self._asked:
            self.ran.append(self._asked[0][1])
            if self._asked[0][0] == "E":
                self._asked.popleft()
            if message[5:-1] == b"COMMIT":
                self.ran.clear()
        elif kind == "E":
            self.failed = True
            self._copying = False
        elif kind == "G" and self._asked and self._asked[0][0] == "E":
            # The server swallows the Sync that follows the Execute of a COPY FROM STDIN; the one
            # after the data counts.
            self._copying = self._unfinished = True
            self._asked = deque(list(self._asked)[:1])
        elif kind == "Z":
            self._ready(in_transaction=message[5:6] != b"I")

    def _ready(self, *, in_transaction: bool) -> None:
        while self._asked and self._asked.popleft()[0] == "E":
            pass  # those skipped after an error have no answer of their own
        self.failed = False
        self.idle = not (in_transaction or self._asked or self._unfinished)
        if not in_transaction:
            self.ran.clear()
