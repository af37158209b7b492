"""How much of all connections is read in one turn of the event loop.

Without a common limit a turn would take longer the more connections send at once. Connections that
have to wait take turns, and so do their owners: a user with many connections is read as often as
one with a single connection.
"""

import asyncio
from collections import deque
from typing import Protocol

COST_PER_TURN = 16
_BYTES_PER_COST = 1024


class Reader(Protocol):
    def read_on(self) -> None:
        """Read, and wait again if not everything could be read."""
        ...


class Turns:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = COST_PER_TURN
        self._is_scheduled = False
        self._waiting: dict[str, deque[Reader]] = {}
        """Connections that wait, by owner. The order of the owners is that of their turns."""

    def pay(self, header_bytes: int) -> None:
        """A request with headers of this size was read."""
        self._left -= 1 + header_bytes // _BYTES_PER_COST
        self._schedule()

    def is_over(self) -> bool:
        """Whether nothing more is read in this turn."""
        return self._left <= 0

    def is_contended(self) -> bool:
        """Whether a connection that has read a request has to let others read."""
        return self._left <= 0 or bool(self._waiting)

    def wait(self, reader: Reader, owner: str) -> None:
        """Call `read_on` of this connection in one of the next turns.

        `owner` is the user of the connection, or the address of a client that nobody knows yet.
        """
        self._waiting.setdefault(owner, deque()).append(reader)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._left = COST_PER_TURN
        self._is_scheduled = False
        for _ in range(sum(map(len, self._waiting.values()))):
            if self._left <= 0:
                break
            self._read_first()
        if self._waiting:
            self._schedule()

    def _read_first(self) -> None:
        owner = next(iter(self._waiting))
        readers = self._waiting.pop(owner)
        reader = readers.popleft()
        if readers:
            self._waiting[owner] = readers  # at the end: the others come first
        reader.read_on()
