import pytest

from pykueue.api.errors import ApiError
from pykueue.engine import events, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.translate import pending_report


def workload(name, *, queue="main", created=0, priority=0):
    return values.Workload(
        key=f"ns/{name}",
        uid=name,
        namespace="ns",
        local_queue=f"ns/{queue}",
        created_at_ns=created,
        priority=priority,
        pod_sets=(),
    )


def find(key):
    namespace, _, name = key.partition("/")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    queue = "other" if name.startswith("o") else "main"
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {"queueName": queue},
    }


@pytest.fixture
def view():
    engine = Engine(Policy())
    engine.handle(events.ClusterQueueChanged(cluster_queue=values.ClusterQueue(name="team")))
    for name in ("main", "other"):
        local_queue = values.LocalQueue(key=f"ns/{name}", cluster_queue="team")
        engine.handle(events.LocalQueueChanged(local_queue=local_queue))
    for pending in (
        workload("late", created=3),
        workload("o1", queue="other", created=2),
        workload("high", priority=9),
    ):
        engine.handle(events.WorkloadArrived(workload=pending))
    return engine.view


def places(items):
    return [
        (item["metadata"]["name"], item["positionInClusterQueue"], item["positionInLocalQueue"])
        for item in items
        if item is not None
    ]


def test_a_cluster_queue_lists_all_in_order(view):
    assert places(pending_report.of_cluster_queue(view, "team", find)) == [
        ("high", 0, 0),
        ("o1", 1, 0),
        ("late", 2, 1),
    ]


def test_a_local_queue_lists_its_own_with_their_place_in_both(view):
    assert places(pending_report.of_local_queue(view, "ns", "main", find)) == [("high", 0, 0), ("late", 2, 1)]


def test_owners_are_named_without_flags(view):
    item = next(pending_report.of_cluster_queue(view, "team", find))
    assert item["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "high", "uid": "u"}
    ]


def test_a_page_is_cut_out(view):
    assert places(page(view, offset=1, limit=1)) == [("o1", 1, 0)]


def page(view, **options):
    summary = pending_report.PendingSummary(version="v1beta2", **options)
    for _ in summary.fill(pending_report.of_cluster_queue(view, "team", find)):
        """A step."""
    return summary.content["items"]


@pytest.mark.parametrize(
    ("options", "count"),
    [({"limit": 2**70}, 3), ({"limit": -1}, 0), ({"offset": 2**70}, 0), ({"offset": -(2**70)}, 3), ({"limit": 0}, 0)],
    ids=str,
)
def test_numbers_of_a_request_may_be_anything(view, options, count):
    assert len(page(view, **options)) == count


def test_an_unknown_queue_is_not_found(view):
    with pytest.raises(ApiError, match=r'clusterqueue\.visibility\.kueue\.x-k8s\.io "none" not found'):
        pending_report.of_cluster_queue(view, "none", find)
