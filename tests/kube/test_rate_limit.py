"""Requests wait when the bucket of tokens is empty."""

from pykueue.kube.rate_limit import RateLimit


class Clock:
    """Sleeping moves the time."""

    def __init__(self):
        self.seconds = 1000.0

    def now_ns(self):
        return int(self.seconds * 10**9)

    async def sleep(self, seconds):
        self.seconds += seconds


async def duration(limit, clock, requests):
    start = clock.seconds
    for _ in range(requests):
        await limit.wait()
    return round(clock.seconds - start, 3)


async def test_a_burst_is_free_and_the_rest_waits():
    clock = Clock()
    limit = RateLimit(10, 5, clock)
    assert await duration(limit, clock, 5) == 0
    assert await duration(limit, clock, 20) == 2.0


async def test_the_bucket_fills_again():
    clock = Clock()
    limit = RateLimit(10, 5, clock)
    await duration(limit, clock, 5)
    clock.seconds += 0.3
    assert await duration(limit, clock, 3) == 0
    assert await duration(limit, clock, 1) == 0.1
