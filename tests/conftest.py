"""The cluster that PYKUEUE_E2E_KUBECONFIG names, shared by all tests that run on one."""

import pytest
from tests.e2e.given_cluster import GIVEN, GivenCluster


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """None: tests start an embedded API."""
    if not GIVEN:
        yield None
        return
    made = GivenCluster(GIVEN, tmp_path_factory.mktemp("given"))
    yield made
    made.remove()
