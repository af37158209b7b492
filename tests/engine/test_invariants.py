import pytest
from tests.engine import builders as b
from tests.engine.worlds import QUEUES, World

from pykueue.engine import decisions, invariants


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


class Sleepless(World):
    """Looks at every tree in every cycle."""

    def cycle(self):
        world = self.cluster.world
        world.settle()
        for node in (*world.tree.cluster_queues.values(), *world.tree.cohorts.values()):
            world.stir(node)
        super().cycle()


def actions(world):
    return [
        repr(each) for each in world.decided if not isinstance(each, decisions.Requeue | decisions.MarkInadmissible)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_letting_trees_sleep_changes_no_decision(seed):
    worlds = (World(seed), Sleepless(seed))
    for _ in range(80):
        for world in worlds:
            world.step()
        assert actions(worlds[0]) == actions(worlds[1])
        parked, parked_sleepless = ([world.cluster.parked(name) for name in QUEUES] for world in worlds)
        assert parked == parked_sleepless
