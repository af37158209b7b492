import pytest
from tests.engine import builders as b
from tests.engine.random_clusters import QUEUES, RandomCluster

from pykueue.engine import decisions, invariants

pytestmark = pytest.mark.untraced


@pytest.mark.parametrize("seed", range(40))
def test_random_cluster_stays_consistent_after_every_event(seed):
    random_cluster = RandomCluster(seed)
    for _ in range(60):
        shrank = random_cluster.step()
        invariants.check(random_cluster.cluster.engine, quota_shrank=shrank)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_many_random_clusters_stay_consistent():
    for seed in range(1_000, 2_000):
        random_cluster = RandomCluster(seed)
        for _ in range(200):
            shrank = random_cluster.step()
            invariants.check(random_cluster.cluster.engine, quota_shrank=shrank)


def test_broken_usage_is_noticed():
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("one"))
    cluster.cycle()
    usage = cluster.state.cluster_queues["queue"].node.usage
    usage[0] += 1
    with pytest.raises(invariants.InvariantError, match="queue uses"):
        invariants.check(cluster.engine)
    usage[0] -= 1


def test_usage_above_the_limit_is_noticed():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("big", cpu=2, admitted_to="default"))
    cluster.may_exceed_quota()
    with pytest.raises(invariants.InvariantError, match="at most 1"):
        invariants.check(cluster.engine)


class NeverIdle(RandomCluster):
    """Looks at every tree in every cycle."""

    def cycle(self):
        state = self.cluster.state
        state.settle()
        for node in (*state.tree.cluster_queues.values(), *state.tree.cohorts.values()):
            state.mark_dirty(node)
        super().cycle()


def actions(random_cluster):
    return [
        repr(decision)
        for decision in random_cluster.decided
        if not isinstance(decision, decisions.Requeue | decisions.MarkInadmissible)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_idle_trees_change_no_decision(seed):
    clusters = (RandomCluster(seed), NeverIdle(seed))
    for _ in range(80):
        for random_cluster in clusters:
            random_cluster.step()
        assert actions(clusters[0]) == actions(clusters[1])
        inadmissible, never_idle = (
            [random_cluster.cluster.inadmissible(name) for name in QUEUES] for random_cluster in clusters
        )
        assert inadmissible == never_idle
