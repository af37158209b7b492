"""Long work on the event loop in slices: one in each turn of the loop, users in turn.

Some requests are answered from every object of a namespace: a list with a field selector decodes
all of them, a list in another version converts them. However many there are, the requests of other
users wait for a slice and not for the rest.
"""

from collections.abc import Iterator

from pykueue.apiserver.fair_queue import FairQueue

SLICE_WEIGHT = 64 * 1024
"""A slice ends when its steps have this weight, about a millisecond of decoding."""
STEP_WEIGHT = 1024
"""The weight of a step without the bytes that it reads."""


class Slices:
    def __init__(self, per_turn: int = 1) -> None:
        """`per_turn` says how many slices of all users are taken in one turn of the loop."""
        self._queue = FairQueue(per_turn, None, per_turn=per_turn)

    async def turn(self, user: str) -> None:
        """Return in a turn of the event loop in which few others begin a slice."""
        await self._queue.enter(user)
        self._queue.leave(user)

    async def run(self, steps: Iterator[int], user: str) -> None:
        """Take all steps. Each yields its weight: the bytes that it has read.

        The first slice is taken at once, because the request has its turn already.
        """
        is_done = _slice(steps)
        while not is_done:
            await self.turn(user)
            is_done = _slice(steps)


def _slice(steps: Iterator[int]) -> bool:
    """Take a few steps; True if none are left."""
    weight = 0
    for step in steps:
        weight += step + STEP_WEIGHT
        if weight >= SLICE_WEIGHT:
            return False
    return True
