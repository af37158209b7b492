"""What the engine keeps between cycles, and that a cycle can pause, changes no decision."""

import pytest
from tests.engine import random_loads
from tests.engine.builders import Cluster, cluster_queue, workload

from pykueue.engine import events
from pykueue.engine.cycle.last_nomination import LastNomination
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.engine.preemption import classical_targets
from pykueue.engine.preemption.shared_candidates import SharedCandidates
from pykueue.engine.topology.count_cache import CountCache
from pykueue.engine.topology.counting import CapacityCount

SIZES = [(seed, 2 + seed % 9) for seed in range(40)] + [(1000, 100), (1001, 100)]


def fresh_count(self, request, resolved, *, leader, as_if_empty):
    return CapacityCount(
        self._capacity, request, resolved, leader=leader, assumed={}, within=(), as_if_empty=as_if_empty
    )


class ForgetfulEngine(Engine):
    """An engine that keeps nothing from one head to the next."""

    def handle(self, event):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LastNomination, "repeated", lambda *_: None)
            patch.setattr(CountCache, "count", fresh_count)
            patch.setattr(SharedCandidates, "open", lambda _: None)
            patch.setattr(classical_targets, "_flat_attempt", lambda *_, borrowing: None)
            self._state._queues_of_tree.clear()
            self._state._namespace_checks.clear()
            for queue in self._state.cluster_queues.values():
                for pending in queue.pending:
                    pending.valid_settings = None
            return super().handle(event)


@pytest.mark.parametrize(("seed", "queues"), SIZES)
def test_an_engine_without_caches_decides_the_same(seed, queues):
    steps = 3 if queues == 100 else 8
    decided = random_loads.play(seed, Engine, queues=queues, steps=steps)
    assert decided == random_loads.play(seed, ForgetfulEngine, queues=queues, steps=steps)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(2000, 2400))
def test_an_engine_without_caches_decides_the_same_in_many_loads(seed):
    queues, steps = (300, 3) if seed % 100 == 99 else (2 + seed % 40, 10)
    decided = random_loads.play(seed, Engine, queues=queues, steps=steps)
    assert decided == random_loads.play(seed, ForgetfulEngine, queues=queues, steps=steps)


@pytest.mark.parametrize("different", [{"cpu": 3}, {"cpu": 8, "allowed_flavors": ("other",)}])
def test_a_workload_that_only_shares_its_hash_gets_an_assignment_of_its_own(different):
    def second(scheduling_hash):
        cluster = Cluster(cluster_queue(nominal=100))
        cluster.add(workload("first", cpu=8, scheduling_hash="one"))
        assert cluster.admitted() == ["first"]
        cluster.add(workload("second", scheduling_hash=scheduling_hash, **different))
        return cluster.cycle()

    assert second("one") == second("another")


def test_a_higher_priority_with_the_same_hash_still_preempts():
    cluster = Cluster(cluster_queue(within="LowerPriority"), policy=Policy(scheduling_equivalence_hashing=False))
    cluster.add(workload("running", cpu=8))
    assert cluster.admitted() == ["running"]
    cluster.add(workload("equal", cpu=8, scheduling_hash="one"))
    assert cluster.preempted() == []
    cluster.add(workload("higher", cpu=8, priority=5, scheduling_hash="one"))
    assert cluster.preempted() == [("running", "InClusterQueue")]


def test_a_head_without_targets_finds_those_that_were_admitted_later():
    cluster = Cluster(cluster_queue(within="LowerPriority"))
    equal, lower = workload("equal", cpu=6, priority=5), workload("lower", cpu=4)
    cluster.add(equal)
    assert cluster.admitted() == ["equal"]
    cluster.add(workload("head", cpu=8, priority=5))
    assert cluster.preempted() == []
    cluster.add(lower)
    assert cluster.admitted() == ["lower"]
    cluster.handle(events.WorkloadGone(key=equal.key))
    assert cluster.preempted() == [("lower", "InClusterQueue")]


class PausingEngine(Engine):
    """An engine that pauses after every entry of a cycle, and is read at every pause."""

    def handle(self, event):
        if not isinstance(event, events.CycleDue):
            return super().handle(event)
        steps = self.cycle_in_steps(event, lambda: True)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value
            self.check_view()

    def check_view(self):
        """A workload is pending or has quota, and usage is the sum of the reservations."""
        for queue in self.view.cluster_queues():
            name = queue.value.name
            reservations = self.view.reservations(name)
            used = {}
            for reservation in reservations:
                for flavor_resource, amount in reservation.usage.items():
                    used[flavor_resource] = used.get(flavor_resource, 0) + amount
            assert {key: amount for key, amount in queue.usage.items() if amount} == {
                key: amount for key, amount in used.items() if amount
            }
            pending = {workload.key for workload in self.view.pending_in_order(name)}
            assert pending.isdisjoint(reservation.workload.key for reservation in reservations)
            assert queue.pending_count == len(pending)


@pytest.mark.parametrize("seed", range(30))
def test_a_cycle_that_pauses_decides_the_same(seed):
    decided = random_loads.play(seed, Engine, queues=2 + seed % 9, steps=6)
    assert decided == random_loads.play(seed, PausingEngine, queues=2 + seed % 9, steps=6)


def test_a_pending_workload_stays_visible_while_its_cycle_pauses():
    load = random_loads.RandomLoad(5, Engine, queues=6, topology=False)
    for _ in range(12):
        load.arrive()
    before = {name: load.engine.view.pending_in_order(name) for name in load.queues}
    steps = load.engine.cycle_in_steps(events.CycleDue(at_ns=load.now_ns), lambda: True)
    next(steps)
    assert {name: load.engine.view.pending_in_order(name) for name in load.queues} == before
    steps.close()


def test_an_abandoned_cycle_leaves_no_trial_behind():
    """A cycle that is closed at any pause restores the usage of its trial."""
    for pauses in range(1, 60):
        load = random_loads.RandomLoad(9, PausingEngine, queues=8, topology=True)
        load.step()
        for _ in range(12):
            load.arrive()
        steps = load.engine.cycle_in_steps(events.CycleDue(at_ns=load.now_ns), lambda: True)
        for _ in range(pauses):
            next(steps, None)
        steps.close()
        load.engine.check_view()
        assert load.engine._state.ledger._trials == 0
