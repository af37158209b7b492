import pytest
from tests.engine import builders as b
from tests.engine.worlds import World

from pykueue.engine import invariants


@pytest.mark.parametrize("seed", range(40))
def test_random_world_stays_consistent_after_every_event(seed):
    world = World(seed)
    for _ in range(60):
        shrank = world.step()
        invariants.check(world.cluster.engine, quota_shrank=shrank)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_many_random_worlds_stay_consistent():
    for seed in range(1_000, 2_000):
        world = World(seed)
        for _ in range(200):
            shrank = world.step()
            invariants.check(world.cluster.engine, quota_shrank=shrank)


def test_broken_usage_is_noticed():
    cluster = b.Cluster(b.cluster_queue())
    cluster.add(b.workload("one"))
    cluster.cycle()
    cluster.world.cluster_queues["queue"].node.usage[0] += 1
    with pytest.raises(invariants.InvariantError, match="queue uses"):
        invariants.check(cluster.engine)


def test_usage_above_the_limit_is_noticed():
    cluster = b.Cluster(b.cluster_queue(nominal=1))
    cluster.add(b.workload("big", cpu=2, admitted_to="default"))
    with pytest.raises(invariants.InvariantError, match="at most 1"):
        invariants.check(cluster.engine)
