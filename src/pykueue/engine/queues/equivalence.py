"""Whether a change of a pending workload may make it admissible. Called by `pending_queue`."""

from pykueue.engine import values


def is_equivalent(before: values.Workload, new: values.Workload, evaluated_generation: int) -> bool:
    """Whether nothing changed that could make an inadmissible workload admissible."""
    return (
        (not evaluated_generation or evaluated_generation == new.generation)
        and before.generation == new.generation
        and before.scheduling_hash == new.scheduling_hash
        and before.priority == new.priority
        and before.local_queue == new.local_queue
        and before.eviction == new.eviction
        and before.requeued == new.requeued
        and before.requeue_at_ns == new.requeue_at_ns
        and before.closed_preemption_gate == new.closed_preemption_gate
        and before.allowed_flavors == new.allowed_flavors
        and before.invalid_requests == new.invalid_requests
        and before.pod_sets == new.pod_sets
    )
