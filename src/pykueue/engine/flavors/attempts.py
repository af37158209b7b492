"""The record of flavors considered for a group of pod sets, merged over its resource groups. Kept by the assigner."""

from pykueue.engine.queues.cluster_queue import Group
from pykueue.engine.reasons import (
    SEVERITY,
    FlavorAttempt,
    FlavorReason,
    Mode,
    NoFitReason,
    Possibility,
    ResourceNotProvided,
)
from pykueue.engine.values import FlavorName, ResourceName


def most_severe(left: NoFitReason, right: NoFitReason) -> NoFitReason:
    return left if SEVERITY[left] >= SEVERITY[right] else right


class Attempts:
    def __init__(self, *, observe: bool) -> None:
        self._observe = observe
        self._by_flavor: dict[FlavorName, FlavorAttempt] = {}

    def merge(self, found: list[FlavorAttempt], group: Group, resource: ResourceName) -> None:
        """Add what one resource group showed; a flavor of the group not reached for this resource does not fit."""
        if not self._by_flavor:
            self._by_flavor = {attempt.flavor: attempt for attempt in found}
            return
        for attempt in found:
            before = self._by_flavor.get(attempt.flavor)
            self._by_flavor[attempt.flavor] = attempt if before is None else self._merged(before, attempt)
        if not found:
            return
        reached = {attempt.flavor for attempt in found}
        for flavor in group.flavors:
            before = self._by_flavor.get(flavor.name)
            if before is not None and flavor.name not in reached:
                absent = ResourceNotProvided(flavor=flavor.name, resource=resource)
                self._by_flavor[flavor.name] = FlavorAttempt(
                    flavor=flavor.name,
                    mode=Mode.NO_FIT,
                    borrowing=before.borrowing,
                    possibility=before.possibility,
                    reasons=_union(before.reasons, (absent,)),
                    no_fit_reason=NoFitReason.NO_MATCHING_FLAVOR if self._observe else NoFitReason.NONE,
                )

    def ordered(self) -> tuple[FlavorAttempt, ...]:
        if len(self._by_flavor) == 1:
            return tuple(self._by_flavor.values())
        return tuple(self._by_flavor[flavor] for flavor in sorted(self._by_flavor))

    def _merged(self, before: FlavorAttempt, attempt: FlavorAttempt) -> FlavorAttempt:
        return FlavorAttempt(
            flavor=attempt.flavor,
            mode=min(before.mode, attempt.mode),
            borrowing=max(before.borrowing, attempt.borrowing),
            possibility=_least(before.possibility, attempt.possibility),
            reasons=_union(before.reasons, attempt.reasons),
            no_fit_reason=most_severe(before.no_fit_reason, attempt.no_fit_reason)
            if self._observe
            else NoFitReason.NONE,
        )


def _least(left: Possibility | None, right: Possibility | None) -> Possibility | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _union(left: tuple[FlavorReason, ...], right: tuple[FlavorReason, ...]) -> tuple[FlavorReason, ...]:
    return (*left, *(reason for reason in right if reason not in left))
