"""Decides what happens to the variants of a parent Workload. Pure.

Every flavor of the ClusterQueue has a variant. The parent takes over the admission of the variant
that is admitted, and the migration policy decides which other variants stay active. Variants may
preempt one after another: only one preemption gate is opened at a time.
"""

from pykueue.api import conditions, objects
from pykueue.api.json_copy import copied
from pykueue.api.labels import CONCURRENT_ADMISSION, CONCURRENT_ADMISSION_PARENT, WORKLOAD_ALLOWED_RESOURCE_FLAVORS
from pykueue.api.resources import WORKLOAD
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.concurrent_admission.family import Family, Migration, migration_of, quoted
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.decide import release_after_eviction
from pykueue.controllers.workloads import predicates, transitions
from pykueue.controllers.workloads.unadmitted import LEGACY, UnadmittedStatus
from pykueue.kube.controller.writes import Plan
from pykueue.translate import variants

PREEMPTION_TIMEOUT_NS = 300 * SECOND_NS
"""How long one variant may try to preempt before the next one may, too."""


def plan(
    parent: Object,
    members: list[Object],
    cluster_queue: Object,
    now_ns: int,
    *,
    max_name_length: int,
    unadmitted: UnadmittedStatus = LEGACY,
) -> Plan:
    migration = migration_of(cluster_queue)
    order = {name: rank for rank, name in enumerate(migration.flavors)}
    ordered = sorted(members, key=lambda variant: order.get(variants.flavor(variant), 0))
    family = Family.of(parent, ordered, now_ns, unadmitted=unadmitted)
    _create_missing(family, migration, max_name_length)
    for variant in [variant for variant in family.variants if variants.flavor(variant) not in order]:
        family.delete(variant)
    if _evict_parent(family):
        return Plan(actions=family.actions())
    _deactivate(family, migration)
    _activate(family, migration)
    _sync_admission(family)
    requeue_after_ns = _open_gate(family)
    return Plan(actions=family.actions(), requeue_after_ns=requeue_after_ns)


def _create_missing(family: Family, migration: Migration, max_name_length: int) -> None:
    if objects.is_deleted(family.parent) or predicates.is_finished(family.parent):
        return
    present = {variants.flavor(variant) for variant in family.variants}
    for flavor in migration.flavors:
        if flavor not in present:
            family.create(variant_of(family.parent, flavor, max_name_length))


def variant_of(parent: Object, flavor: str, max_name_length: int) -> Object:
    """A new variant: the spec of the parent with a preemption gate, and the flavor."""
    metadata = parent["metadata"]
    spec = copied(parent["spec"])
    gates = spec.get("preemptionGates") or []
    if all(gate["name"] != CONCURRENT_ADMISSION for gate in gates):
        spec["preemptionGates"] = [*gates, {"name": CONCURRENT_ADMISSION}]
    labels = {name: value for name, value in objects.labels(parent).items() if name != CONCURRENT_ADMISSION_PARENT}
    identity = {"apiVersion": WORKLOAD.api_version, "kind": WORKLOAD.kind}
    return {
        **identity,
        "metadata": {
            "name": construction.variant_name(parent, flavor, max_name_length),
            "namespace": metadata["namespace"],
            **({"labels": labels} if labels else {}),
            "annotations": {**objects.annotations(parent), WORKLOAD_ALLOWED_RESOURCE_FLAVORS: flavor},
            "ownerReferences": [objects.controller_reference({**parent, **identity})],
        },
        "spec": spec,
    }


def _evict_parent(family: Family) -> bool:
    """Stops the job of an evicted variant, then releases the quota of the variant.

    True if the parent still has its quota. A variant that was not admitted loses its quota only.
    """
    for variant in family.variants:
        if not predicates.is_evicted(variant) or not predicates.has_quota_reservation(variant):
            continue
        if predicates.is_admitted(variant) and predicates.has_quota_reservation(family.parent):
            if not predicates.is_evicted(family.parent):
                _set_evicted(family, "VariantEvicted", "Admitted variant was evicted")
            return True
        release_after_eviction(variant, family.now_ns, unadmitted=family.unadmitted)
        return False
    return False


def _set_evicted(family: Family, reason: str, message: str) -> None:
    conditions.put(family.parent, "Evicted", status=True, reason=reason, message=message, now_ns=family.now_ns)


def _deactivate(family: Family, migration: Migration) -> None:
    if not predicates.is_active(family.parent):
        for variant in family.variants:
            _deactivate_variant(family, variant, f"Parent Workload {quoted(family.parent)} not active")
        return
    admitted = family.admitted
    if admitted is None:
        return
    for variant in family.variants:
        if variant is admitted:
            continue
        if migration.retains_first:
            cause = f"RetainFirstAdmission: another Variant {quoted(admitted)} is admitted"
            _deactivate_variant(family, variant, cause)
        elif not migration.is_acceptable(variant):
            cause = (
                f'being below lastAcceptableFlavor: "{migration.last_acceptable_flavor}"'
                f" and another Variant admitted {quoted(admitted)}"
            )
            _deactivate_variant(family, variant, cause)
        elif migration.rank(variant) > migration.rank(admitted):
            _deactivate_variant(family, variant, f"being lower priority than admitted Variant {quoted(admitted)}")


def _deactivate_variant(family: Family, variant: Object, cause: str) -> None:
    """Deactivates a variant; when it is evicted, it loses its quota."""
    family.deactivate(variant, cause)
    if predicates.is_evicted(variant) and predicates.has_quota_reservation(variant):
        release_after_eviction(variant, family.now_ns, unadmitted=family.unadmitted)


def _activate(family: Family, migration: Migration) -> None:
    if not predicates.is_active(family.parent):
        return
    admitted = family.admitted
    if admitted is None:
        for variant in family.variants:
            family.activate(variant, "no other Variant being admitted")
        return
    if migration.retains_first:
        return
    cause = f"being higher priority than admitted Variant {quoted(admitted)}"
    if migration.last_acceptable_flavor is not None:
        cause = (
            f'being at least lastAcceptableFlavor: "{migration.last_acceptable_flavor}"'
            f" and higher priority than admitted Variant {quoted(admitted)}"
        )
    for variant in family.variants:
        if migration.rank(variant) < migration.rank(admitted) and migration.is_acceptable(variant):
            family.activate(variant, cause)


def _sync_admission(family: Family) -> None:
    parent, now_ns = family.parent, family.now_ns
    finished = conditions.find(parent, "Finished")
    if finished is not None and finished["status"] == "True":
        for variant in family.variants:
            transitions.finish(variant, reason=finished["reason"], message=finished["message"], now_ns=now_ns)
        return
    admitted = family.admitted
    if admitted is None:
        if predicates.is_admitted(parent):
            _set_evicted(family, "ConcurrentAdmission", "No variant is running")
        return
    _copy_pods_ready(parent, admitted)
    if not predicates.is_admitted(parent) and predicates.is_active(parent):
        transitions.reserve_quota(parent, copied(admitted["status"]["admission"]), now_ns)
        message = f"The variant {objects.name(admitted)} is admitted"
        conditions.put(parent, "Admitted", status=True, reason="Admitted", message=message, now_ns=now_ns)


def _copy_pods_ready(parent: Object, variant: Object) -> None:
    ready = conditions.find(parent, "PodsReady")
    if ready is None:
        return
    conditions.remove(variant, "PodsReady")
    variant["status"]["conditions"].append(dict(ready))


def _open_gate(family: Family) -> int:
    """Opens the preemption gate of the next variant; returns when to look again."""
    admissible = [variant for variant in family.variants if predicates.is_admissible(variant)]
    candidate = _gate_candidate(admissible)
    if candidate is None:
        return 0
    opened = [to_ns(gate["lastTransitionTime"]) for variant in admissible if (gate := _open_gate_of(variant))]
    if opened and family.now_ns - max(opened) < PREEMPTION_TIMEOUT_NS:
        return PREEMPTION_TIMEOUT_NS - (family.now_ns - max(opened))
    if transitions.open_preemption_gate(candidate, CONCURRENT_ADMISSION, family.now_ns):
        family.opened_gate(candidate)
    return PREEMPTION_TIMEOUT_NS


def _gate_candidate(admissible: list[Object]) -> Object | None:
    """The first variant that waits for its gate; None until those before it have been tried."""
    for variant in admissible:
        if _open_gate_of(variant) is not None:
            continue
        if conditions.is_true(variant, "BlockedOnPreemptionGates"):
            return variant
        if conditions.find(variant, "QuotaReserved") is None:
            return None
    return None


def _open_gate_of(variant: Object) -> Object | None:
    for gate in objects.nested_list(variant, "status", "preemptionGates"):
        if gate["name"] == CONCURRENT_ADMISSION and gate["position"] == "Open":
            return dict(gate)
    return None
