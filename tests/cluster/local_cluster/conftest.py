import pytest
from tests.apiserver.shared_copies import changed_by_a_reader
from tests.cluster.local_cluster.cluster_fixture import ClusterFixture

from pykueue.api import registry
from pykueue.apiserver import bootstrap
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.kube.clock import WallClock


@pytest.fixture
async def client():
    scheme = registry.scheme()
    core = Core(Store(MemoryLog()), scheme)
    await core.start()
    await bootstrap.ensure(core, scheme, 6443)
    yield LocalClient(core, scheme, shows_managers=False)
    await core.stop()
    assert changed_by_a_reader(core.store) == []


@pytest.fixture
async def start_cluster(client, tmp_path):
    """Starts clusters by runtime; all are stopped at the end."""
    clusters = []

    async def start_cluster(runtime, *nodes):
        options = ClusterOptions(runtime=runtime, directory=tmp_path / "cluster", nodes=nodes)
        cluster = LocalCluster(client, WallClock(), options)
        await cluster.start()
        clusters.append(cluster)
        return ClusterFixture(client, cluster)

    yield start_cluster
    for cluster in clusters:
        await cluster.stop()


@pytest.fixture
async def local_cluster(start_cluster):
    return await start_cluster("none")
