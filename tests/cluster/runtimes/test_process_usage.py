"""CPU and memory of pods, read from the real /proc."""

from tests.cluster.runtimes.test_process import request
from tests.cluster.waiting import eventually

from pykueue.cluster.runtimes import linux_processes
from pykueue.cluster.runtimes.linux_processes import ProcessUsage
from pykueue.cluster.runtimes.process import ProcessRuntime


async def test_a_busy_container_uses_cpu_and_memory(tmp_path):
    runtime = ProcessRuntime(tmp_path)
    container = await runtime.start(request("sh", "-c", "while :; do :; done", uid="busy-pod"))
    try:
        await eventually(lambda: _used("busy-pod", "main").cpu_ns > 0)
        assert _used("busy-pod", "main").memory_bytes > 0
    finally:
        await container.stop(0)


def _used(uid, container):
    return linux_processes.measure_usage().get((uid, container), ProcessUsage())


def test_a_rate_is_what_was_used_in_between():
    before, after = ProcessUsage(cpu_ns=1_000_000_000), ProcessUsage(cpu_ns=1_500_000_000)
    assert linux_processes.cpu_rate_nano(before, after, 1_000_000_000) == 500_000_000
