"""The pytest plugin: the fixture `kueue`, a cluster in virtual time for each test.

It is an entry point of the package, so that it needs no configuration. The marker `kueue` passes
options to `pykueue.Cluster`. Every pytest of an environment with pykueue imports this module, so
it imports the library only when a test asks for a cluster.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pykueue


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kueue(**options): options of the cluster of the fixture `kueue`")


@pytest.fixture
def kueue(request: pytest.FixtureRequest) -> "Iterator[pykueue.Cluster]":
    """A cluster with a queue `default`, in virtual time; its options are those of the marker."""
    import inspect

    from pykueue.library import Cluster

    marker = request.node.get_closest_marker("kueue")
    options = marker.kwargs if marker else {}
    possible = inspect.signature(Cluster).parameters
    if unknown := sorted(options.keys() - possible.keys()):
        raise pytest.UsageError(f"marker kueue has no option {', '.join(unknown)}; it has {', '.join(possible)}")
    with Cluster(**options) as cluster:
        yield cluster
