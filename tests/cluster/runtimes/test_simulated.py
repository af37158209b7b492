from datetime import timedelta

import pytest

from pykueue.api import times
from pykueue.api.times import SECOND_NS
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import simulated
from pykueue.cluster.runtimes.protocol import ContainerRequest, StillPulling
from pykueue.kube.clock import WallClock


class StoppedClock:
    moment_ns = 0

    def now_ns(self):
        return self.moment_ns


def request(*command, **annotations):
    marks = {f"pykueue.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return ContainerRequest(
        pod={"metadata": {"name": "p", "uid": "u", "annotations": marks}, "spec": {}},
        container={"name": "main", "command": list(command)},
    )


@pytest.mark.parametrize(
    ("container_request", "seconds"),
    [
        (request(runtime="90"), 90),
        (request(runtime="1h30m"), 5400),
        (request("sleep", "30"), 30),
        (request("sh", "-c", "echo hi; sleep 2m && sleep 0.5; echo done"), 120.5),
        (request("python", "train.py"), None),
        (request("sleep", "30", runtime="5s"), 5),
    ],
)
def test_how_long_a_pod_runs(container_request, seconds):
    assert simulated.seconds(container_request.pod, container_request.container) == seconds


async def test_the_exit_code_is_the_annotated_one():
    container = await simulated.SimulatedRuntime(WallClock()).start(request(runtime="0", exit_code="3"))
    assert await container.wait() == Exit(code=3)


async def test_a_node_gets_an_image_once():
    clock = StoppedClock()
    runtime = simulated.SimulatedRuntime(clock)
    with pytest.raises(StillPulling) as pulling:
        await runtime.start(request("sleep", "1", pull="5s"))
    assert pulling.value.remaining == timedelta(seconds=5)
    clock.moment_ns += 5 * SECOND_NS
    await runtime.start(request("sleep", "1", pull="5s"))


async def test_stopping_ends_it_at_once():
    container = await simulated.SimulatedRuntime(WallClock()).start(request("sleep", "3600"))
    await container.stop(30)
    assert await container.wait() == simulated.TERMINATED


@pytest.mark.parametrize("text", ["zzz", "-1", "9" * 5000, "", "1_0"])
def test_an_exit_code_that_is_none_counts_as_0(text):
    assert simulated.exit_code(request(exit_code=text).pod) == 0


@pytest.mark.parametrize("container_request", [request("sleep", "9" * 400), request(runtime="9" * 400)])
def test_no_pod_runs_longer_than_a_century(container_request):
    seconds = simulated.seconds(container_request.pod, container_request.container)
    assert seconds == times.LONGEST_SECONDS
