"""The reason of a pending Workload is written when the API takes writes again."""

from tests.controllers.system.cluster import JOBS, job, running_cluster
from tests.controllers.system.disturbed import RefusingClient
from tests.controllers.system.test_waking import pending_with

from pykueue.controllers.scheduler import workload_writer


async def test_a_refused_reason_is_written_later(monkeypatch):
    """The engine decides once; nothing else would write the reason."""
    monkeypatch.setattr(workload_writer, "FIRST_PAUSE_SECONDS", 0.001)
    async with running_cluster(starts=False) as cluster:
        client = RefusingClient(cluster.client, "kueue-admission", workload_writer.ATTEMPTS + 1)
        await cluster.make_queue(cpu="1")
        await cluster.create(JOBS, job("large", cpu="2"), "default")
        await cluster.start(client)
        await pending_with(cluster, "large", "insufficient quota")
        assert client.refusals_left == 0
