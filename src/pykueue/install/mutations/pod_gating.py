"""Scheduling gates of pods, and the marks on pod templates whose pods get gates.

CEL has no hash function. So the controller writes the annotation `role-hash`, which Kueue's
webhook also sets, when it releases a pod of a group. In Python: `api.rules.jobs.pod`, `serving`
and `leader_worker_set`.
"""

from pykueue.api import feature_gates
from pykueue.api.labels import (
    ADMISSION_GATE,
    MANAGED,
    POD_GROUP_POD_INDEX,
    POD_GROUP_POD_INDEX_LABEL,
    POD_GROUP_SERVING,
    POD_INDEX_OFFSET,
    POD_SET_GROUP_NAME,
    POD_SUSPENDING_PARENT,
    PRIORITY_CLASS,
    QUEUE_NAME,
    TOPOLOGY_GATE,
)
from pykueue.api.rules.jobs import (
    job_kinds,
)
from pykueue.api.rules.jobs.job_kinds import JobKind, Path
from pykueue.api.scheme import Object, Settings
from pykueue.install import admission_policies
from pykueue.install.admission_policies import Mutation, Subject, object_with

POD = job_kinds.POD
_PARENT = f"'{POD_SUSPENDING_PARENT}' in object.metadata.?annotations.orValue({{}})"
WITHOUT_PARENT = ("parentless", f"!({_PARENT})")
_INDEX = f"object.metadata.?annotations[?'{POD_GROUP_POD_INDEX_LABEL}']"
_INDEX_LABEL = (
    f"{_INDEX}.hasValue() ? optional.of(object.metadata.?labels[?{_INDEX}.orValue('')].orValue('')) : optional.none()"
)
_LEADER = ("spec", "leaderWorkerTemplate", "leaderTemplate")
_WORKER = ("spec", "leaderWorkerTemplate", "workerTemplate")


def _has_topology(settings: Settings) -> bool:
    return feature_gates.is_enabled(settings.feature_gates, "TopologyAwareScheduling")


def of_pods(settings: Settings) -> tuple[Mutation, ...]:
    """Mutations of a pod that is managed for itself."""
    labels, finalizers = f"labels: {{'{MANAGED}': 'true'}}", f"finalizers: ['{MANAGED}']"
    return Mutation(text=f"Object{{metadata: Object.metadata{{{labels}, {finalizers}}}}}"), *_gates(settings)


def by_parents(settings: Settings) -> list[Object]:
    """The policy for pods whose owner has marked its pod template."""
    subject = Subject(resource=POD.resource, conditions=(("parented", _PARENT),))
    return admission_policies.mutating("hold-pods-by-parent", subject, _gates(settings))


def _gates(settings: Settings) -> tuple[Mutation, ...]:
    has_topology = _has_topology(settings)
    names = (ADMISSION_GATE, TOPOLOGY_GATE) if has_topology else (ADMISSION_GATE,)
    gates = ", ".join(f"Object.spec.schedulingGates{{name: '{name}'}}" for name in names)
    set_gates = Mutation(text=object_with(("spec", "schedulingGates"), f"[{gates}]"))
    if not has_topology:
        return (set_gates,)
    return set_gates, Mutation(
        text=object_with(("metadata", "labels"), f"{{?'{POD_GROUP_POD_INDEX}': {_INDEX_LABEL}}}")
    )


def conditions(job_kind: JobKind) -> tuple[tuple[str, str], ...]:
    alive = ("alive", "!has(object.metadata.deletionTimestamp)")
    if job_kind != job_kinds.STATEFUL_SET:
        return (alive,)
    parent = f"object.spec.template.?metadata.?annotations[?'{POD_SUSPENDING_PARENT}'].orValue('statefulset')"
    return alive, ("unparented", f"{parent} == 'statefulset'")


def of_templates(job_kind: JobKind, settings: Settings) -> tuple[Mutation, ...]:
    annotations = {POD_SUSPENDING_PARENT: job_kind.name}
    match job_kind:
        case job_kinds.STATEFUL_SET:
            return (Mutation(text=_marked(("spec", "template"), annotations)),)
        case job_kinds.DEPLOYMENT:
            return (Mutation(text=_marked(("spec", "template"), annotations, {MANAGED: "true"}, copies=True)),)
    annotations[POD_GROUP_SERVING] = "true"
    leader, worker = (_marked(path, annotations, copies=True) for path in (_LEADER, _WORKER))
    has_leader = "has(object.spec.leaderWorkerTemplate.leaderTemplate)"
    mutations = [Mutation(text=f"{has_leader} ? {leader} : Object{{}}"), Mutation(text=worker)]
    if _has_topology(settings):
        group = f"'{POD_SET_GROUP_NAME}' in object.spec.leaderWorkerTemplate.workerTemplate.?metadata.?annotations.orValue({{}})"
        offset = _marked(_WORKER, {POD_INDEX_OFFSET: "1"})
        mutations.append(Mutation(text=f"{has_leader} && !({group}) ? {offset} : Object{{}}"))
    return tuple(mutations)


def _marked(
    template: Path, annotations: dict[str, str], labels: dict[str, str] | None = None, *, copies: bool = False
) -> str:
    """CEL that marks a pod template; `copies` adds the queue and the priority class."""
    metadata = (*template, "metadata")
    entries = [f"'{key}': '{value}'" for key, value in (labels or {}).items()]
    if copies:
        entries += [_copied(key) for key in (QUEUE_NAME, PRIORITY_CLASS)]
    notes = [f"'{key}': '{value}'" for key, value in annotations.items()]
    parts = [f"annotations: {{{', '.join(notes)}}}"]
    if entries:
        parts.append(f"labels: {{{', '.join(entries)}}}")
    return object_with(metadata, f"{'.'.join(('Object', *metadata))}{{{', '.join(parts)}}}")


def _copied(key: str) -> str:
    value = f"object.metadata.?labels[?'{key}']"
    return f"?'{key}': {value}.orValue('') == '' ? optional.none() : {value}"
