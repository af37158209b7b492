"""When a container is asked how it is, and what a row of answers means; time is made up."""

import asyncio

import pytest

from pykueue.cluster.kubelet import probes
from pykueue.cluster.kubelet.probe_worker import ProbeWorker

ASKS = {"exec": {"command": ["true"]}}


class Clock:
    """Passes at once, and notes when."""

    def __init__(self):
        self.seconds = 0.0

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)


class Case:
    def __init__(self, answers, **container):
        self.container = {"name": "main", **container}
        self.clock = Clock()
        self.answers = iter(answers)
        self.told = []

    async def ask(self, _handler):
        answer = next(self.answers, None)
        if answer is None:
            await asyncio.Event().wait()
        return answer

    def tell(self, kind, verdict, _fault):
        self.told.append((kind, verdict, self.clock.seconds))

    async def play(self, **options):
        attending = asyncio.ensure_future(ProbeWorker(self.container, self.clock, self.ask, self.tell, **options).run())
        for _ in range(200):
            await asyncio.sleep(0)
        attending.cancel()
        await asyncio.gather(attending, return_exceptions=True)
        return self.told


async def test_readiness_comes_after_the_delay_and_goes_after_three_failures():
    case = Case(["", "no", "no", "no", ""], readinessProbe={**ASKS, "initialDelaySeconds": 5, "periodSeconds": 2})
    assert await case.play(is_up=True) == [
        ("readiness", True, 5),
        ("readiness", None, 7),
        ("readiness", None, 9),
        ("readiness", False, 11),
        ("readiness", True, 13),
    ]


async def test_liveness_is_asked_only_once_the_startup_probe_is_good():
    probe = {**ASKS, "periodSeconds": 1, "failureThreshold": 5}
    case = Case(["no", "", ""], startupProbe=probe, livenessProbe={**ASKS, "initialDelaySeconds": 10})
    assert [(kind, verdict) for kind, verdict, _ in await case.play()] == [
        ("startup", None),
        ("startup", True),
        ("liveness", True),
    ]


async def test_a_startup_probe_that_never_succeeds_condemns():
    case = Case(["no", "no"], startupProbe={**ASKS, "failureThreshold": 2}, livenessProbe=ASKS)
    assert (await case.play())[-1][:2] == ("startup", False)


async def test_a_failed_post_start_hook_condemns():
    case = Case(["broken"], lifecycle={"postStart": ASKS}, readinessProbe=ASKS)
    assert await case.play() == [("postStart", False, 0)]


@pytest.mark.parametrize(
    ("spec", "needs"), [({}, False), ({"lifecycle": {"preStop": ASKS}}, False), ({"livenessProbe": ASKS}, True)]
)
def test_only_probes_and_post_start_need_attention(spec, needs):
    assert probes.needs_attention(spec) is needs
