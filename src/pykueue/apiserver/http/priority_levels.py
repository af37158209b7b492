"""Priority levels: system components and administrators never wait for other users.

Each level has seats of its own for reads, for writes, for bodies that are still arriving, and for
streams (watches, logs, exec). A read never waits for writes, as with `--max-requests-inflight` and
`--max-mutating-requests-inflight` of kube-apiserver. The numbers fit one event loop: requests of
users start one in each of its turns, those of administrators a few, so that what the system does
and the other users come in between. `system:masters` is exempt, as in Kubernetes: its requests may
wait, but none is refused.
"""

from dataclasses import dataclass, field
from typing import Self

from pykueue.api import errors
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http import bodies

_MASTERS = "system:masters"
_SYSTEM_USERS = (
    "system:kube-",
    "system:node:",
    "system:serviceaccount:kube-system:",
    "system:serviceaccount:kueue-system:",
)
_SERVICE_ACCOUNT = "system:serviceaccount:"
_LONGEST_QUEUE = 300
_READS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityLevel:
    reads: FairQueue
    writes: FairQueue
    bodies: FairQueue
    streams: FairQueue
    most_values: int
    """Fields and items of one body."""

    is_exempt: bool = False
    """Whether methods of a user have queues of their own, so that no creation delays a patch."""

    def seat(self, method: str, user: str) -> "Seat":
        """The seat for a request of this method."""
        queue = self.reads if method in _READS else self.writes
        return Seat(queue, f"{method} {user}" if self.is_exempt else user)


def _exempt() -> PriorityLevel:
    return PriorityLevel(
        reads=FairQueue(200, None, per_turn=8),
        writes=FairQueue(64, None, per_turn=4),
        bodies=FairQueue(200, None),
        streams=FairQueue(10_000, 0),
        most_values=bodies.MOST_VALUES_OF_SYSTEM,
        is_exempt=True,
    )


def _system() -> PriorityLevel:
    return PriorityLevel(
        reads=FairQueue(200, 1000),
        writes=FairQueue(64, 1000),
        bodies=FairQueue(200, 1000),
        streams=FairQueue(10_000, 0),
        most_values=bodies.MOST_VALUES_OF_SYSTEM,
    )


def _workload() -> PriorityLevel:
    return PriorityLevel(
        reads=FairQueue(64, _LONGEST_QUEUE, per_turn=1),
        writes=FairQueue(64, _LONGEST_QUEUE, per_turn=1),
        bodies=FairQueue(64, _LONGEST_QUEUE),
        streams=FairQueue(1000, 0),
        most_values=bodies.MOST_VALUES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityLevels:
    exempt: PriorityLevel = field(default_factory=_exempt)
    system: PriorityLevel = field(default_factory=_system)
    workload: PriorityLevel = field(default_factory=_workload)

    def of(self, user: UserInfo) -> PriorityLevel:
        if _MASTERS in user.groups:
            return self.exempt
        return self.system if user.name.startswith(_SYSTEM_USERS) else self.workload


def queue_of(user: UserInfo) -> str:
    """The queue of a user. Service accounts of a namespace share one: users can create many."""
    if user.name.startswith(_SERVICE_ACCOUNT):
        return user.name.rpartition(":")[0]
    return user.name


class Seat:
    """A place of a user in a fair queue, which is left once."""

    __slots__ = ("_is_occupied", "_queue", "_user")

    def __init__(self, queue: FairQueue, user: str) -> None:
        self._queue = queue
        self._user = user
        self._is_occupied = False

    async def take(self) -> None:
        if not self._queue.try_enter(self._user):
            await self._queue.enter(self._user)
        self._is_occupied = True

    def leave(self) -> None:
        if self._is_occupied:
            self._is_occupied = False
            self._queue.leave(self._user)

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()


def body_timeout(seconds: float) -> errors.ApiError:
    return errors.ApiError(408, "Timeout", f"the body of the request did not arrive within {seconds:.0f} seconds")
