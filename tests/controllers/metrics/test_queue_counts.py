"""The counts that the gauges keep between two scrapes."""

from tests.engine import builders as b

from pykueue.controllers.metrics.queue_counts import CountsByQueue
from pykueue.engine import events


def test_a_queue_that_was_created_again_is_counted_again():
    queue = b.cluster_queue()
    cluster = b.Cluster(queue)
    counts = CountsByQueue(cluster.engine.view)
    cluster.add(b.workload("one", cpu=3))
    counts.refresh()
    cluster.handle(events.ClusterQueueGone(name="queue"))
    cluster.handle(events.WorkloadGone(key="default/one"))
    cluster.handle(events.ClusterQueueChanged(cluster_queue=queue))
    cluster.add(b.workload("two", cpu=5))
    counts.refresh()
    assert counts.of("queue").requested[b.CPU] == 5
