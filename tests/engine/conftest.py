import pytest
from tests.engine import builders

from pykueue.engine import invariants


@pytest.fixture(autouse=True)
def _invariants_hold_at_the_end():
    builders.BUILT.clear()
    builders.OVER_QUOTA.clear()
    yield
    for engine in builders.BUILT:
        invariants.check(engine, quota_shrank=engine in builders.OVER_QUOTA)
