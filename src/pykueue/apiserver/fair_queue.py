"""Shares seats fairly between users, as Kubernetes' API priority and fairness does.

A seat is whatever there is a limited number of: requests being handled, bodies being read, open
watches. A user may take a seat while more seats are free than the user has. So one user alone
never takes more than half of the seats, and the next one at most half of the rest. Further
requests wait in a queue of their user. Seats that become free are given to the users in turn, so
that a user without seats waits for one to become free and not for the requests of others.

A seat bounds how much is under way, but all requests run on one event loop. If `per_turn` is set,
only so many enter in one turn of the loop, and the users take turns: however many requests of one
user arrive at once, the next request of another user waits for one of them and not for all.
"""

import asyncio
from collections import deque

from pykueue.api import errors

_RETRY_AFTER_SECONDS = 1
LONGEST_WAIT_SECONDS = 15.0


class FairQueue:
    """Every `enter` that returns is followed by one `leave` of the same user.

    Without a limit of the queue a request waits as long as its client does. `per_turn` 0 means:
    any number may enter in one turn of the event loop.
    """

    def __init__(self, seats: int, longest_queue: int | None, *, per_turn: int = 0) -> None:
        self._free = seats
        self._per_turn = per_turn
        self._entered = 0
        """How many entered in this turn. Unless it is 0, `_next_turn` is scheduled."""
        self._longest_queue = longest_queue
        self._occupied: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting requests by user. The order of the users is that of their turns."""

    def try_enter(self, user: str) -> bool:
        """Take a seat, if there is one for this user and nobody of this user waits."""
        if user in self._queues or not self._may_enter(user):
            return False
        self._occupy(user)
        return True

    async def enter(self, user: str) -> None:
        """Take a seat, or wait for one; ApiError 429 if the user's queue is full."""
        if self.try_enter(user):
            return
        queue = self._queues.get(user)
        if self._longest_queue is not None and len(queue or ()) >= self._longest_queue:
            raise too_many_requests()
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(seat)
        try:
            async with asyncio.timeout(None if self._longest_queue is None else LONGEST_WAIT_SECONDS):
                await seat
        except BaseException as error:
            self._abandon(user, seat)
            if isinstance(error, TimeoutError):
                raise too_many_requests() from None
            raise

    def leave(self, user: str) -> None:
        self._free += 1
        occupied = self._occupied[user] - 1
        if occupied:
            self._occupied[user] = occupied
        else:
            del self._occupied[user]
        if self._queues:
            self._serve_waiting()

    def _may_enter(self, user: str) -> bool:
        has_turn = not self._per_turn or self._entered < self._per_turn
        return has_turn and self._occupied.get(user, 0) < self._free

    def _occupy(self, user: str) -> None:
        self._occupied[user] = self._occupied.get(user, 0) + 1
        self._free -= 1
        if self._per_turn:
            if not self._entered:
                asyncio.get_running_loop().call_soon(self._next_turn)
            self._entered += 1

    def _next_turn(self) -> None:
        self._entered = 0
        if self._queues:
            self._serve_waiting()

    def _abandon(self, user: str, seat: asyncio.Future[None]) -> None:
        """A client that no longer waits gives back a seat that it was given meanwhile."""
        if seat.done() and not seat.cancelled():
            self.leave(user)
            return
        seat.cancel()
        if (queue := self._queues.get(user)) and seat in queue:
            queue.remove(seat)
            if not queue:
                del self._queues[user]

    def _serve_waiting(self) -> None:
        """Give free seats to waiting users, who take turns."""
        is_served = True
        while is_served:
            is_served = False
            for user in list(self._queues):
                if self._may_enter(user):
                    self._serve_first(user)
                    is_served = True

    def _serve_first(self, user: str) -> None:
        queue = self._queues.pop(user)
        seat = queue.popleft()
        if queue:
            self._queues[user] = queue  # at the end: the others come first
        if not seat.done():
            self._occupy(user)
            seat.set_result(None)


def too_many_requests() -> errors.ApiError:
    return errors.too_many_requests("Too many requests, please try again later.", _RETRY_AFTER_SECONDS)
