"""A limit on requests per second: a bucket of tokens, as in Kubernetes' own clients.

`kube.http_client` waits here before a request if the Configuration has `clientConnection`.
"""

from pykueue.api.times import SECOND_NS
from pykueue.kube.clock import Clock


class RateLimit:
    """At most `burst` requests at once, and `per_second` on average; first come, first served."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._pause_ns = int(SECOND_NS / per_second)
        self._burst = max(burst, 1)
        self._clock = clock
        self._full_at_ns = 0
        """When the bucket is full again; every request moves it by one pause."""

    async def wait(self) -> None:
        now_ns = self._clock.now_ns()
        self._full_at_ns = max(self._full_at_ns, now_ns) + self._pause_ns
        wait_ns = self._full_at_ns - now_ns - self._burst * self._pause_ns
        if wait_ns > 0:
            await self._clock.sleep(wait_ns / SECOND_NS)
