"""What `pykueue up` says about its runtime, and what it does when the runtime changes."""

from tests.cluster.up.conftest import Cluster


def test_without_a_runtime_the_banner_says_that_no_pod_starts(tmp_path):
    cluster = Cluster(tmp_path / "data").start("--runtime", "none")
    assert "No pod is started, because the runtime is `none`." in cluster.stop()
