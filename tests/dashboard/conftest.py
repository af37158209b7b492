import aiohttp
import pytest
import pytest_asyncio
from tests.dashboard import browser as browsers

from pykueue.api import registry
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.apiserver.security import tokens
from pykueue.dashboard.embedded import EmbeddedDashboard


@pytest.fixture
async def api(tmp_path):
    api = EmbeddedApi(ServerPaths(directory=tmp_path / "data", host="127.0.0.1", port=0), registry.scheme())
    await api.start()
    yield api
    await api.stop()


@pytest.fixture
async def dashboard(api, tmp_path):
    dashboard = EmbeddedDashboard(api, port=0, totals=dict, directory=tmp_path)
    await dashboard.start()
    yield dashboard
    await dashboard.stop()


@pytest.fixture
async def site(dashboard):
    """Requests to the port of the page, which has no TLS."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{dashboard.port}") as session:
        yield session


@pytest.fixture
def token_of(api):
    def issue(user):
        return tokens.issue(api.paths.tokens, user)

    return issue


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with browsers.opened() as browser:
        yield browser
