"""Deployment, StatefulSet and LeaderWorkerSet, whose pods get scheduling gates.

In Python: `api.rules.jobs.serving` and `api.rules.jobs.leader_worker_set`.
"""

from pykueue.api.labels import POD_SUSPENDING_PARENT, QUEUE_NAME
from pykueue.api.rules.jobs import generic, job_kinds, leader_worker_set, pod, serving
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Settings
from pykueue.install.validations import admission_gates, table, topology
from pykueue.install.validations import generic as jobs
from pykueue.install.validations.table import IS_UPDATE, METADATA, NEW, OLD, Table, Validation, Variable

_WAS_IDLE = f"{OLD}.?status.?readyReplicas.orValue(0) == 0"


def of_deployments(settings: Settings) -> Table:
    return Table(variables=_variables(settings), validations=tuple(_rules(job_kinds.DEPLOYMENT, settings)))


def of_stateful_sets(settings: Settings, owned: str) -> Table:
    """`owned` is CEL for whether the object has a managed owner."""
    replicas, before = (f"{obj}.spec.?replicas.orValue(1)" for obj in (NEW, OLD))
    managed = [
        *_same_role("spec.template.spec"),
        Validation(
            when=f"{replicas} != 0 && {before} != 0",
            cel=f"{replicas} == {before}",
            message="spec.replicas: field is immutable",
        ),
        Validation(
            when=f"{replicas} != 0 && {before} == 0",
            cel=f"{NEW}.?status.?replicas.orValue(0) == 0",
            message=f"spec.replicas: {serving.SCALING_DOWN}",
        ),
    ]
    parent = f"object.spec.template.?metadata.?annotations[?'{POD_SUSPENDING_PARENT}'].orValue('statefulset')"
    return Table(
        variables=(*_variables(settings), _is_gated(settings, owned)),
        validations=(
            *_rules(job_kinds.STATEFUL_SET, settings),
            *table.under("variables.holdsBack", managed),
        ),
        conditions=(("independent", f"{parent} == 'statefulset'"),),
    )


def of_leader_worker_sets(settings: Settings, owned: str) -> Table:
    path, old_path = (f"{obj}.spec.?leaderWorkerTemplate" for obj in (NEW, OLD))
    leader, size = f"{path}.?leaderTemplate", f"{path}.?size.orValue(1)"
    workers = f"({leader}.hasValue() ? {size} - 1 : {size})"
    templates = (
        f"({leader}.hasValue() ? [{topology.template(leader, '1')}] : []) + "
        f"[{topology.template(f'{path}.?workerTemplate', workers)}]"
    )
    most = leader_worker_set.MOST_REPLICAS
    replicas = f"{NEW}.spec.?replicas.orValue(1)"
    managed = [
        Validation(
            cel=f"{leader}.hasValue() == {old_path}.?leaderTemplate.hasValue()",
            message="spec.leaderWorkerTemplate.leaderTemplate: field is immutable",
        ),
        *_same_role("spec.?leaderWorkerTemplate.?leaderTemplate.?spec"),
        *_same_role("spec.?leaderWorkerTemplate.?workerTemplate.?spec"),
    ]
    if jobs.is_on(settings, "LWSImmutableGroupSize"):
        managed.append(
            Validation(
                cel=f"{size} == {old_path}.?size.orValue(1)",
                message="spec.leaderWorkerTemplate.size: field is immutable",
            )
        )
    return Table(
        variables=(*_variables(settings), _is_gated(settings, owned), topology.variable(templates)),
        validations=(
            *_rules(job_kinds.LEADER_WORKER_SET, settings),
            Validation(
                cel=f"{replicas} >= 0 && {replicas} <= {most}",
                message=f"spec.replicas: invalid LeaderWorkerSet replicas: must be between 0 and {most}",
            ),
            *topology.validations(settings, groups=True),
            *table.under("variables.holdsBack", managed),
        ),
    )


def _variables(settings: Settings) -> tuple[Variable, ...]:
    is_elastic = jobs.elastic_text(settings, table.annotation)
    return (*METADATA, Variable(name="isElastic", cel=is_elastic), *admission_gates.variables(settings))


def _rules(job_kind: JobKind, settings: Settings) -> list[Validation]:
    queue, before = (get(QUEUE_NAME) for get in (table.label, table.old_label))
    return [
        jobs.queue_name(),
        *jobs.elastic(job_kind),
        Validation(
            when=f"{IS_UPDATE} && (!({_WAS_IDLE}) || {queue} == '')",
            cel=f"{queue} == {before}",
            message=f"{generic.QUEUE_PATH}: field is immutable",
        ),
        *jobs.priority_class(_WAS_IDLE),
        *admission_gates.validations(settings),
    ]


def _is_gated(settings: Settings, owned: str) -> Variable:
    """Whether this is an update of an object whose pods are gated."""
    is_queued = f"{table.label(QUEUE_NAME)} != ''"
    skips_deleted = jobs.is_on(settings, "SkipAncestorCheckForDeletedWorkloads")
    stays = "!object.metadata.?deletionTimestamp.hasValue()" if skips_deleted else "true"
    managed = "true" if settings.manage_jobs_without_queue_name else is_queued
    return Variable(name="holdsBack", cel=f"{IS_UPDATE} && {stays} && {managed} && !({owned})")


def _same_role(path: str) -> list[Validation]:
    """The fields that define the role of a pod are immutable; `path` is its specification."""
    spoken = path.replace("?", "")
    validations = [_unchanged(f"{path}.?{name}", f"{spoken}.{name}") for name in pod.ROLE_FIELDS]
    validations.append(_unchanged(f"{path}.?resources.?requests", f"{spoken}.resources"))
    for name in ("initContainers", "containers"):
        shape = "[dyn(c.?resources.?requests.orValue({})), dyn(c.?ports.orValue([]))]"
        now, before = (f"{obj}.{path}.?{name}.orValue([]).map(c, {shape})" for obj in (NEW, OLD))
        message = f"{spoken}.{name}: ports and requests are immutable"
        validations.append(Validation(cel=f"{now} == {before}", message=message))
    return validations


def _unchanged(place: str, spoken: str) -> Validation:
    return Validation(cel=f"{NEW}.{place} == {OLD}.{place}", message=f"{spoken}: field is immutable")
