"""When a container is probed, and which results in a row decide; the clock is virtual."""

import asyncio

import pytest

from pykueue.cluster.kubelet import probes
from pykueue.cluster.kubelet.probes import ProbeWorker

HANDLER = {"exec": {"command": ["true"]}}


class Clock:
    """Sleeps take no real time; `seconds` is their sum."""

    def __init__(self):
        self.seconds = 0.0

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)


class ProbeFixture:
    def __init__(self, results, **container):
        self.container = {"name": "main", **container}
        self.clock = Clock()
        self.results = iter(results)
        self.reports = []

    async def run_handler(self, _handler):
        result = next(self.results, None)
        if result is None:
            await asyncio.Event().wait()
        return result

    def report(self, kind, verdict, _fault):
        self.reports.append((kind, verdict, self.clock.seconds))

    async def run(self, **options):
        task = asyncio.ensure_future(
            ProbeWorker(self.container, self.clock, self.run_handler, self.report, **options).run()
        )
        for _ in range(200):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return self.reports


async def test_readiness_begins_after_the_delay_and_ends_after_three_failures():
    fixture = ProbeFixture(
        ["", "no", "no", "no", ""], readinessProbe={**HANDLER, "initialDelaySeconds": 5, "periodSeconds": 2}
    )
    assert await fixture.run(has_started=True) == [
        ("readiness", True, 5),
        ("readiness", None, 7),
        ("readiness", None, 9),
        ("readiness", False, 11),
        ("readiness", True, 13),
    ]


async def test_liveness_is_probed_after_the_startup_probe_has_succeeded():
    probe = {**HANDLER, "periodSeconds": 1, "failureThreshold": 5}
    fixture = ProbeFixture(["no", "", ""], startupProbe=probe, livenessProbe={**HANDLER, "initialDelaySeconds": 10})
    assert [(kind, verdict) for kind, verdict, _ in await fixture.run()] == [
        ("startup", None),
        ("startup", True),
        ("liveness", True),
    ]


async def test_a_startup_probe_that_never_succeeds_fails_the_container():
    fixture = ProbeFixture(["no", "no"], startupProbe={**HANDLER, "failureThreshold": 2}, livenessProbe=HANDLER)
    assert (await fixture.run())[-1][:2] == ("startup", False)


async def test_a_failed_post_start_hook_fails_the_container():
    fixture = ProbeFixture(["broken"], lifecycle={"postStart": HANDLER}, readinessProbe=HANDLER)
    assert await fixture.run() == [("postStart", False, 0)]


@pytest.mark.parametrize(
    ("spec", "needs"), [({}, False), ({"lifecycle": {"preStop": HANDLER}}, False), ({"livenessProbe": HANDLER}, True)]
)
def test_only_probes_and_post_start_need_a_worker(spec, needs):
    assert probes.needs_worker(spec) is needs
