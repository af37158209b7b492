import pytest

from pykueue.api import registry
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths


@pytest.fixture
async def api(tmp_path):
    """The embedded API without controllers and pods."""
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    yield api
    await api.stop()
