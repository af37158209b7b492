"""The engine: events go in, decisions come out, and `view` answers questions.

    engine = Engine(Policy())
    for event in events:
        for decision in engine.handle(event): ...

The engine handles one event at a time, without I/O and without a clock, so the same events give
the same decisions.
"""

import copy
from collections.abc import Callable
from typing import Self, assert_never

from pykueue.engine import decisions, events
from pykueue.engine.cycle import cycle
from pykueue.engine.handlers import queues, topology, workloads
from pykueue.engine.policy import Policy
from pykueue.engine.state import EngineState
from pykueue.engine.view import EngineView


class Engine:
    def __init__(self, policy: Policy) -> None:
        self._state = EngineState(policy)
        self.view = EngineView(self._state, self.fork)

    def handle(  # noqa: C901, PLR0912, PLR0915 - the total table of events
        self, event: events.EngineEvent
    ) -> list[decisions.Decision]:
        """Change the state as the event says. Only `CycleDue` returns decisions."""
        state = self._state
        state.now_ns = max(state.now_ns, event.at_ns)
        if state.reactivated_trees:
            state.reactivated_trees = {}
        match event:
            case events.CycleDue():
                state.begin_cycle(event.at_ns, event.requeue_interval_ns)
                return cycle.run(state)
            case events.WorkloadArrived() | events.WorkloadChanged():
                workloads.workload_changed(state, event.workload)
            case events.WorkloadGone():
                workloads.workload_gone(state, event)
            case events.AdmissionRefused():
                workloads.admission_refused(state, event)
            case events.EvictionRefused():
                workloads.eviction_refused(state, event)
            case events.PodBound():
                topology.pod_bound(state, event)
            case events.PodEnded():
                topology.pod_ended(state, event)
            case events.NodeChanged():
                topology.node_changed(state, event)
            case events.NodeGone():
                topology.node_gone(state, event)
            case events.TopologyChanged():
                topology.topology_changed(state, event)
            case events.TopologyGone():
                topology.topology_gone(state, event)
            case events.LocalQueueUsageSampled():
                queues.local_queue_usage_sampled(state, event)
            case events.LocalQueueChanged():
                queues.local_queue_changed(state, event)
            case events.LocalQueueGone():
                queues.local_queue_gone(state, event)
            case events.ClusterQueueChanged():
                queues.cluster_queue_changed(state, event)
            case events.ClusterQueueGone():
                queues.cluster_queue_gone(state, event)
            case events.CohortChanged():
                queues.cohort_changed(state, event)
            case events.CohortGone():
                queues.cohort_gone(state, event)
            case events.FlavorChanged():
                queues.flavor_changed(state, event)
            case events.FlavorGone():
                queues.flavor_gone(state, event)
            case events.AdmissionCheckChanged():
                queues.admission_check_changed(state, event)
            case events.AdmissionCheckGone():
                queues.admission_check_gone(state, event)
            case events.NamespaceChanged():
                queues.namespace_changed(state, event)
            case events.NamespaceGone():
                queues.namespace_gone(state, event)
            case _:
                assert_never(event)
        return []

    def cycle_in_steps(self, event: events.CycleDue, should_pause: Callable[[], bool]) -> cycle.CycleSteps:
        """A cycle whose driver may pause it; it returns the decisions that `handle` would return.

        While it is paused the view may be read, but no event may be handled.
        """
        state = self._state
        state.reactivated_trees = {}
        state.begin_cycle(event.at_ns, event.requeue_interval_ns)
        return cycle.in_steps(state, should_pause)

    @property
    def next_due_ns(self) -> int | None:
        """When a cycle must run even if no other event arrives."""
        due = (self._state.second_passes.next_due_ns, self._state.reactivations.next_due_ns)
        return min((at_ns for at_ns in due if at_ns is not None), default=None)

    def fork(self) -> Self:
        """An independent copy for what-if questions.

        The copy shares values, because values never change.
        """
        return copy.deepcopy(self)
