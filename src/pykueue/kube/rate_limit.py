"""A limit on requests per second: a bucket of tokens, as in Kubernetes' own clients.

`kube.http_client` waits here before a request if the Configuration has `clientConnection`. Kueue's
client has a bucket for each kind, so that events and the statuses of queues do not delay the
admission of Workloads; so has this one.
"""

from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock


class RateLimit:
    """For each kind `burst` requests at once and `per_second` on average, in their order."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._pause_ns = int(SECOND_NS / per_second)
        self._burst = max(burst, 1)
        self._clock = clock
        self._full_at_ns: dict[str, int] = {}
        """When the bucket of a kind is full again; every request moves it by one pause."""

    async def wait(self, path: str) -> None:
        """Wait until a request to this path may be sent."""
        kind = _collection(path)
        now_ns = self._clock.now_ns()
        full_at_ns = self._full_at_ns[kind] = max(self._full_at_ns.get(kind, 0), now_ns) + self._pause_ns
        wait_ns = full_at_ns - now_ns - self._burst * self._pause_ns
        if wait_ns > 0:
            await self._clock.sleep(wait_ns / SECOND_NS)


def _collection(path: str) -> str:
    """Group, version and kind of a path of the API: the path without namespace and name."""
    _, root, *rest = path.split("/")
    head = 1 if root == "api" else 2
    is_namespaced = len(rest) > head + 2 and rest[head] == "namespaces"
    kind = rest[head + 2] if is_namespaced else "".join(rest[head : head + 1])
    return "/".join((root, *rest[:head], kind))
