"""Requests wait when the bucket of tokens is empty."""

import pytest

from pykueue.kube.rate_limit import RateLimit


class Clock:
    """Sleeping moves the time."""

    def __init__(self):
        self.seconds = 1000.0

    def now_ns(self):
        return int(self.seconds * 10**9)

    async def sleep(self, seconds):
        self.seconds += seconds


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/x/status"


async def duration(limit, clock, requests, path=WORKLOADS):
    start = clock.seconds
    for _ in range(requests):
        await limit.wait(path)
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


@pytest.mark.parametrize(
    ("path", "is_delayed"),
    [
        (WORKLOADS, True),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/b/workloads", True),
        ("/apis/kueue.x-k8s.io/v1beta2/workloads", True),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/a/localqueues/x/status", False),
        ("/apis/events.k8s.io/v1/namespaces/a/events", False),
        ("/api/v1/namespaces/a/pods/x", False),
        ("/api/v1/namespaces/workloads", False),
        ("/version", False),
    ],
)
async def test_a_kind_waits_for_requests_of_that_kind_only(path, is_delayed):
    clock = Clock()
    limit = RateLimit(10, 5, clock)
    await duration(limit, clock, 5)
    assert await duration(limit, clock, 1, path) == (0.1 if is_delayed else 0)
