"""Which suite is replayed by whom. A new family of recordings is one module with its `RUNNERS`, named here."""

from collections.abc import Callable, Mapping

from pykueue.conformance import (
    cycles,
    flavors,
    lifecycle,
    orders,
    placement,
    pod_sets,
    preemption,
    quota,
    requests,
    schedules,
    topology_encoding,
    webhooks,
)
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference

Runner = Callable[[Case], list[Difference]]
"""Replays one case and returns what is not as recorded; nothing means that the case passed."""

RUNNERS: Mapping[str, Runner] = {
    **requests.RUNNERS,
    **pod_sets.RUNNERS,
    **webhooks.RUNNERS,
    **lifecycle.RUNNERS,
    **quota.RUNNERS,
    **flavors.RUNNERS,
    **preemption.RUNNERS,
    **orders.RUNNERS,
    **schedules.RUNNERS,
    **cycles.RUNNERS,
    **topology_encoding.RUNNERS,
    **placement.RUNNERS,
}

RUNS_WITH_ALPHA_GATES: frozenset[str] = frozenset(webhooks.RUNNERS)
"""Suites replayed even where the recording switched an alpha feature on, because it changes nothing that they show."""
