import pytest
from tests.node.room.house import House

from pykueue.api import registry
from pykueue.apiserver import bootstrap
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.clock import WallClock
from pykueue.node.room import MachineRoom


@pytest.fixture
async def client():
    scheme = registry.scheme()
    core = Core(Store(MemoryLog()), scheme)
    await core.start()
    await bootstrap.ensure(core, scheme, 6443)
    yield LocalClient(core, scheme)
    await core.stop()


@pytest.fixture
async def house(client):
    room = MachineRoom(client, WallClock())
    await room.start()
    yield House(client, room)
    await room.stop()
