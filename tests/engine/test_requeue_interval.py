"""When inadmissible workloads are tried again in a tree in which arrivals preempt others."""

import pytest
from tests.engine.builders import SECOND_NS, Cluster, cluster_queue, name, replaced, workload

from pykueue.engine import decisions, events

MILLISECOND_NS = 1_000_000


class Contention(Cluster):
    """A queue for one workload, in which `important` has preempted `running` while `next` waits.

    The end of `running` is the first change that may let `next` in.
    """

    def __init__(self, *others, interval_ns=SECOND_NS, important_created_ns=None):
        super().__init__(cluster_queue(nominal=1, within="LowerPriority"), *others)
        self.interval_ns = interval_ns
        self.now_ns = 100 * SECOND_NS
        self.workloads = {}
        self.submit("running", created=1)
        self.decide()
        self.submit("next", created=2)
        self.decide()
        created = self.now_ns if important_created_ns is None else important_created_ns
        self.submit("important", priority=1, created=created)
        assert self.preempted_now() == {"running"}
        self.finish("running")
        assert self.admitted_now() == ["important"]

    def submit(self, title, **fields):
        self.workloads[title] = workload(title, **fields)
        self.add(self.workloads[title])

    def finish(self, title):
        finished = replaced(self.workloads[title], finished=True)
        self.handle(events.WorkloadChanged(at_ns=self.now_ns, workload=finished))

    def after(self, milliseconds):
        self.now_ns += milliseconds * MILLISECOND_NS
        return self

    def decide(self):
        """The decisions of the cycles up to one that decides what the last one did."""
        due = events.CycleDue(at_ns=self.now_ns, requeue_interval_ns=self.interval_ns)
        decided, last = [], None
        while (cycle := self.handle(due)) != last:
            decided += cycle
            last = cycle
        return decided

    def preempted_now(self):
        preemptions = [decision for decision in self.decide() if isinstance(decision, decisions.Preempt)]
        return {name(target.workload) for decision in preemptions for target in decision.targets}

    def admitted_now(self):
        return [name(decision.workload) for decision in self.decide() if isinstance(decision, decisions.Admit)]


def test_after_a_preemption_changes_are_collected_from_the_first_one_for_the_interval():
    cluster = Contention()
    cluster.after(100).finish("important")
    assert cluster.admitted_now() == []
    assert cluster.after(899).admitted_now() == []
    assert cluster.after(1).admitted_now() == ["next"]


def test_the_next_interval_begins_with_the_next_change():
    cluster = Contention()
    assert cluster.after(1000).admitted_now() == []
    cluster.after(2000).finish("important")
    assert cluster.admitted_now() == []
    assert cluster.after(1000).admitted_now() == ["next"]


def test_the_time_is_known_at_which_they_are_tried_again():
    cluster = Contention()
    cluster.after(100).finish("important")
    cluster.decide()
    assert cluster.engine.next_due_ns == cluster.now_ns + 900 * MILLISECOND_NS


def test_an_arrival_gets_the_quota_meanwhile():
    cluster = Contention()
    cluster.after(100).finish("important")
    cluster.after(100).submit("urgent", priority=2, created=cluster.now_ns)
    assert cluster.admitted_now() == ["urgent"]


def test_ten_intervals_after_the_preemption_they_are_tried_at_once():
    cluster = Contention()
    cluster.after(10_000).finish("important")
    assert cluster.admitted_now() == ["next"]


def test_the_preemption_of_a_workload_that_had_waited_counts_not():
    cluster = Contention(important_created_ns=90 * SECOND_NS)
    cluster.after(100).finish("important")
    assert cluster.admitted_now() == ["next"]


def test_without_an_interval_they_are_tried_at_once():
    cluster = Contention(interval_ns=0)
    cluster.after(100).finish("important")
    assert cluster.admitted_now() == ["next"]


def test_other_trees_do_not_wait():
    cluster = Contention(cluster_queue("other", nominal=1))
    for title in ("first", "second"):
        cluster.submit(title, queue="other")
    assert cluster.admitted_now() == ["first"]
    cluster.after(100).finish("first")
    assert cluster.admitted_now() == ["second"]


@pytest.mark.parametrize("back_ns", [SECOND_NS, 3600 * SECOND_NS])
def test_a_clock_that_is_set_back_ends_the_wait(back_ns):
    cluster = Contention()
    cluster.after(100).finish("important")
    assert cluster.admitted_now() == []
    cluster.now_ns -= back_ns
    assert cluster.admitted_now() == ["next"]


def test_the_wait_ends_when_the_queue_joins_another_tree():
    cluster = Contention()
    cluster.after(100).finish("important")
    cluster.put(cluster_queue(cohort="cohort", nominal=1, within="LowerPriority"))
    assert cluster.admitted_now() == ["next"]


def test_an_explanation_ends_no_wait():
    cluster = Contention()
    cluster.after(100).finish("important")
    cluster.decide()
    cluster.engine.view.explain(cluster.workloads["next"].key)
    assert cluster.admitted_now() == []


def test_workloads_of_higher_priority_than_the_preempted_ones_do_not_wait():
    cluster = Contention()
    cluster.submit("large", cpu=2, priority=1, created=cluster.now_ns)
    assert cluster.admitted_now() == []
    cluster.after(100).finish("important")
    cluster.put(cluster_queue(nominal=2, within="LowerPriority"))
    assert cluster.admitted_now() == ["large"]


def test_an_arrival_does_not_wait_for_one_that_is_gone():
    cluster = Contention()
    cluster.submit("large", cpu=2, priority=1, created=cluster.now_ns)
    assert cluster.admitted_now() == []
    cluster.handle(events.WorkloadGone(at_ns=cluster.now_ns, key=cluster.workloads["large"].key))
    cluster.put(cluster_queue(nominal=3, within="LowerPriority"))
    cluster.decide()
    cluster.submit("same", cpu=2, priority=1, created=cluster.now_ns)
    assert cluster.admitted_now() == ["same"]


def test_such_a_workload_is_tried_once_for_each_change():
    cluster = Contention()
    cluster.submit("large", cpu=2, priority=1, created=cluster.now_ns)
    cluster.decide()
    cluster.after(100).finish("important")
    assert cluster.decide()
    assert cluster.after(100).decide() == []
