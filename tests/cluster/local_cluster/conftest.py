import pytest
from tests.apiserver.shared_copies import changed_by_a_reader
from tests.cluster.local_cluster.house import House

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
async def furnish(client, tmp_path):
    """Opens houses by runtime; all are closed at the end."""
    houses = []

    async def furnish(runtime, *nodes):
        furnishing = ClusterOptions(runtime=runtime, directory=tmp_path / "room", nodes=nodes)
        room = LocalCluster(client, WallClock(), furnishing)
        await room.start()
        houses.append(room)
        return House(client, room)

    yield furnish
    for room in houses:
        await room.stop()


@pytest.fixture
async def house(furnish):
    return await furnish("none")
