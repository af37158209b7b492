"""Kueue's priority booster: admitted Workloads lose priority after a while, so that others of the
same priority can preempt them (time sharing).

It sets the annotation `kueue.x-k8s.io/priority-boost` to a negative number, and removes it when
the Workload is no longer admitted. The gate PriorityBoost lets the scheduler read it. `plan` is
without I/O; `app.side_controllers` calls it when a Workload changes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykueue.api import conditions, objects, resources, selectors
from pykueue.api.labels import PRIORITY_BOOST
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes


class BoosterOptions(msgspec.Struct, frozen=True, kw_only=True):
    interval_ns: int = 0
    """How long a Workload keeps its priority after its admission; 0 turns the booster off."""
    negative_boost: int = 100_000
    workload_selector: Mapping[str, Any] | None = None
    max_priority: int | None = None
    """Workloads with a higher priority are left alone."""


def plan(workload: Object, options: BoosterOptions, now_ns: int) -> writes.Plan:
    present = objects.annotations(workload).get(PRIORITY_BOOST, "")
    if objects.is_deleted(workload):
        return writes.Plan()
    if not _is_in_scope(workload, options):
        return writes.Plan(actions=tuple(_annotate(workload, None))) if _is_negative(present) else writes.Plan()
    admitted = conditions.find(workload, "Admitted")
    if not options.interval_ns or not conditions.has_status_true(admitted):
        boost, pause_ns = "", 0
    else:
        due_ns = (conditions.transition_ns(admitted) or 0) + options.interval_ns
        boost, pause_ns = (str(-options.negative_boost), 0) if now_ns >= due_ns else ("", due_ns - now_ns)
    actions = tuple(_annotate(workload, boost or None)) if present != boost else ()
    return writes.Plan(actions=actions, requeue_after_ns=pause_ns)


def _is_in_scope(workload: Object, options: BoosterOptions) -> bool:
    requirements = selectors.from_object(options.workload_selector)
    if requirements is not None and not selectors.matches(requirements, objects.labels(workload)):
        return False
    return options.max_priority is None or int(objects.spec(workload).get("priority") or 0) <= options.max_priority


def _is_negative(text: str) -> bool:
    """Whether the booster set this value; others belong to their users."""
    return text.startswith("-") and text[1:].isdigit() and int(text) < 0


def _annotate(workload: Object, value: str | None) -> list[writes.Action]:
    patch = {"metadata": {"annotations": {PRIORITY_BOOST: value}}}
    reason = "PriorityBoostSet" if value else "PriorityBoostCleared"
    message = f"Set {PRIORITY_BOOST}={value} after time-sharing window" if value else f"Cleared {PRIORITY_BOOST}"
    return [
        writes.Patch(resource=resources.WORKLOAD, object=workload, patch=patch, guarded=False),
        writes.Event(about=workload, reason=reason, message=message),
    ]
