"""The external cluster that all end-to-end tests share, if there is one, tests without tracing, and
Ctrl-C.
"""

import signal
import sys

import pytest
from tests.e2e.external_cluster import EXTERNAL_KUBECONFIG, ExternalCluster


@pytest.fixture(scope="session")
def external_cluster(tmp_path_factory):
    """The cluster of PYKUEUE_E2E_KUBECONFIG; None if the tests start an embedded API."""
    if not EXTERNAL_KUBECONFIG:
        yield None
        return
    cluster = ExternalCluster(EXTERNAL_KUBECONFIG, tmp_path_factory.mktemp("external"))
    yield cluster
    cluster.remove()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Coverage makes long calculations take twice as long; other tests run the same lines."""
    tracer = sys.gettrace()
    if item.get_closest_marker("untraced"):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.fixture
def ctrl_c():
    """Ctrl-C interrupts also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
