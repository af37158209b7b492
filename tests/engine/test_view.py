"""What the view of an engine answers, and that its answers are values."""

from tests.engine import builders as b

from pykueue.engine import events, values
from pykueue.engine.view import TreeKey

CPU = values.FlavorResource("default", b.CPU)


def test_an_answer_does_not_change_with_later_events():
    cluster = b.Cluster(b.cluster_queue())
    view = cluster.engine.view
    cluster.add(b.workload("one", cpu=3))
    before, pending = view.cluster_queue("queue"), view.pending("queue")
    assert cluster.admitted() == ["one"]
    assert (before.pending_count, before.usage, len(pending)) == (1, {}, 1)
    after = view.cluster_queue("queue")
    assert (after.pending_count, after.reservation_count, after.usage) == (0, 1, {CPU: 3})
    assert after.version != before.version


def test_the_path_of_a_cluster_queue_starts_at_its_root_cohort():
    cohorts = (values.Cohort(name="root"), values.Cohort(name="team", parent="root"))
    view = b.Cluster(b.cluster_queue("queue", "team"), cohorts=cohorts).engine.view
    assert view.cluster_queue("queue").path == view.path("queue") == ("root", "team", "queue")
    assert view.cohort("team").path == ("root", "team")


def test_reactivated_trees_are_those_of_the_last_event():
    cluster = b.Cluster(b.cluster_queue("queue", "team"))
    cluster.add(b.workload("one", admitted_to="default"))
    cluster.handle(events.WorkloadGone(key="default/one"))
    assert cluster.engine.view.reactivated_trees == (TreeKey(is_cluster_queue=False, name="team"),)
    cluster.add(b.workload("two"))
    assert cluster.engine.view.reactivated_trees == ()


def test_a_stopped_local_queue_has_no_pending_workloads():
    cluster = b.Cluster(b.cluster_queue(nominal=0))
    cluster.add(b.workload("one"))
    assert cluster.engine.view.pending_count("default/queue") == 1
    stopped = values.LocalQueue(key="default/queue", cluster_queue="queue", stop_policy=values.StopPolicy.HOLD)
    cluster.handle(events.LocalQueueChanged(local_queue=stopped))
    assert cluster.engine.view.pending_count("default/queue") == 0


def test_pending_workloads_are_in_queue_order():
    cluster = b.Cluster(b.cluster_queue(nominal=0))
    cluster.add(b.workload("young", created=2), b.workload("old", created=1), b.workload("high", priority=1, created=3))
    cluster.cycle()
    view = cluster.engine.view
    assert [b.name(workload.key) for workload in view.pending_in_order("queue")] == ["high", "old", "young"]
    assert {b.name(workload.key): inadmissible for workload, inadmissible in view.pending("queue")}["high"]
    assert view.pending_in_order("missing") is None
