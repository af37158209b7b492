"""A parent Workload and its variants, sorted by the flavors of their ClusterQueue.

`Family` collects the changes of one reconcile: `decide` edits copies and records events, and
`actions` are the writes.
"""

from dataclasses import dataclass, field

import msgspec

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates
from pykueue.controllers.workloads.decide import remove_finalizer
from pykueue.controllers.workloads.unadmitted import LEGACY, UnadmittedStatus
from pykueue.kube.controller.writes import Action, Create, Delete, Event, changes
from pykueue.translate import variants

RETAIN_FIRST_ADMISSION = "RetainFirstAdmission"
TRY_PREFERRED_FLAVORS = "TryPreferredFlavors"


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """`concurrentAdmissionPolicy.migration` of the ClusterQueue, and its flavors in order."""

    flavors: tuple[str, ...]
    mode: str
    last_acceptable_flavor: str | None

    @property
    def retains_first(self) -> bool:
        return self.mode == RETAIN_FIRST_ADMISSION

    def rank(self, variant: Object) -> int:
        return self.flavors.index(variants.flavor(variant))

    def is_acceptable(self, variant: Object) -> bool:
        """Whether a running workload may migrate to the flavor of the variant."""
        last = self.last_acceptable_flavor
        return last is None or last not in self.flavors or self.rank(variant) <= self.flavors.index(last)


def migration_of(cluster_queue: Object) -> Migration:
    groups = objects.nested_list(cluster_queue, "spec", "resourceGroups")
    migration = objects.nested(cluster_queue, "spec", "concurrentAdmissionPolicy", "migration")
    return Migration(
        flavors=tuple(flavor["name"] for flavor in groups[0]["flavors"]) if groups else (),
        mode=migration.get("mode") or TRY_PREFERRED_FLAVORS,
        last_acceptable_flavor=(migration.get("constraints") or {}).get("lastAcceptableFlavorName"),
    )


def quoted(workload: Object) -> str:
    return f'"{predicates.key(workload)}"'


@dataclass(slots=True, kw_only=True)
class Family:
    original_parent: Object
    parent: Object
    """A copy that may be changed, as are `variants`."""
    variants: list[Object]
    now_ns: int
    unadmitted: UnadmittedStatus = LEGACY
    _originals: dict[str, Object] = field(default_factory=dict)
    _first: list[Action] = field(default_factory=list)
    """Creations and deletions of variants."""
    _events: list[Event] = field(default_factory=list)

    @classmethod
    def of(
        cls, parent: Object, members: list[Object], now_ns: int, *, unadmitted: UnadmittedStatus = LEGACY
    ) -> "Family":
        return cls(
            original_parent=parent,
            parent=copied(parent),
            variants=[copied(variant) for variant in members],
            now_ns=now_ns,
            unadmitted=unadmitted,
            _originals={objects.name(variant): variant for variant in members},
        )

    @property
    def admitted(self) -> Object | None:
        """The first admitted variant in the order of flavors."""
        return next(filter(predicates.is_admitted, self.variants), None)

    def create(self, variant: Object) -> None:
        self._first.append(Create(resource=resources.WORKLOAD, object=variant))
        self._record(self.original_parent, "CreatedVariant", f"Variant Workload {quoted(variant)} created")

    def delete(self, variant: Object) -> None:
        self.variants.remove(variant)
        if objects.is_deleted(variant):
            return
        old = self._originals[objects.name(variant)]
        remove_finalizer(variant)
        self._first += changes(resources.WORKLOAD, old, variant)
        self._first.append(Delete(resource=resources.WORKLOAD, object=old))
        message = (
            f'Variant Workload {quoted(variant)} deleted; flavor "{variants.flavor(variant)}" no longer in ClusterQueue'
        )
        self._record(self.original_parent, "DeletedVariant", message)

    def activate(self, variant: Object, cause: str) -> None:
        """One that exceeded a limit stays inactive: it would be deactivated at once, for ever."""
        if not predicates.is_active(variant) and not conditions.is_true(variant, "DeactivationTarget"):
            variant["spec"]["active"] = True
            self._record(variant, "ActivatedVariant", f"Variant Workload activated due to {cause}")

    def deactivate(self, variant: Object, cause: str) -> None:
        if predicates.is_active(variant):
            variant["spec"]["active"] = False
            self._record(variant, "DeactivatedVariant", f"Variant Workload deactivated due to {cause}")

    def opened_gate(self, variant: Object) -> None:
        message = f"Opened preemption gate for variant workload {quoted(variant)}"
        self._record(variant, "PreemptionUngatedVariant", message)

    def _record(self, about: Object, reason: str, message: str) -> None:
        self._events.append(Event(about=about, reason=reason, message=message))

    def actions(self) -> tuple[Action, ...]:
        updates: list[Action] = []
        for variant in self.variants:
            updates += changes(resources.WORKLOAD, self._originals[objects.name(variant)], variant)
        updates += changes(resources.WORKLOAD, self.original_parent, self.parent)
        return (*self._first, *updates, *self._events)
