import pytest
from tests.controllers.system.cluster import running_cluster


@pytest.fixture
async def cluster():
    async with running_cluster() as running:
        yield running
