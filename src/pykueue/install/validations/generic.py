"""The rules of all job kinds. In Python: `api.rules.jobs.generic` and `replicas`.

They read Kueue's labels and annotations only, so that a job without any of them always passes.
"""

import msgspec

from pykueue.api import feature_gates
from pykueue.api.labels import ELASTIC_JOB, MAX_EXEC_TIME_SECONDS, PREBUILT_WORKLOAD_NAME, PRIORITY_CLASS, QUEUE_NAME
from pykueue.api.rules.jobs import generic, replicas
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Settings
from pykueue.install.validations import admission_gates, cel, table, topology
from pykueue.install.validations.table import IS_UPDATE, METADATA, Table, Validation, Variable

_ELASTIC_PATH = f"metadata.annotations[{ELASTIC_JOB}]"
_PREBUILT_PATH = f"metadata [{PREBUILT_WORKLOAD_NAME}]"
_LONGEST_LABEL = 63


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """CEL for whether a job is suspended now, and whether it was before."""

    now: str
    before: str

    @classmethod
    def of(cls, job_kind: JobKind) -> "Suspension":
        now, before = (cel.at(obj, job_kind.suspend, "false") for obj in ("object", "oldObject"))
        return cls(now=f"{now} == true", before=f"oldObject != null && {before} == true")

    def variables(self) -> tuple[Variable, ...]:
        return Variable(name="isSuspended", cel=self.now), Variable(name="wasSuspended", cel=self.before)


def is_on(settings: Settings, gate: str) -> bool:
    return feature_gates.is_enabled(settings.feature_gates, gate)


def is_managed(settings: Settings) -> str:
    return "true" if settings.manage_jobs_without_queue_name else f"{table.label(QUEUE_NAME)} != ''"


def unless_never_managed(settings: Settings) -> tuple[tuple[str, str], ...]:
    """A match condition that excludes updates of jobs that are not and were not managed."""
    if settings.manage_jobs_without_queue_name:
        return ()
    queue = f".metadata.?labels[?'{QUEUE_NAME}'].orValue('') != ''"
    concerns = f"oldObject == null || object{queue}"
    if is_on(settings, "ValidateRayAndSparkJobUpdates"):
        concerns += f" || oldObject{queue}"
    return (("managed", concerns),)


def variables(settings: Settings, suspension: Suspension) -> tuple[Variable, ...]:
    return (
        *METADATA,
        *suspension.variables(),
        Variable(name="isElastic", cel=elastic_text(settings, table.annotation)),
        Variable(name="wasElastic", cel=elastic_text(settings, table.old_annotation)),
        Variable(name="prebuilt", cel=_prebuilt(settings, table.label, table.annotation)),
        Variable(name="oldPrebuilt", cel=_prebuilt(settings, table.old_label, table.old_annotation)),
        *admission_gates.variables(settings),
    )


def elastic_text(settings: Settings, annotation: table.Entry) -> str:
    can_be = is_on(settings, "ElasticJobsViaWorkloadSlices")
    return f"{annotation(ELASTIC_JOB)} == 'true'" if can_be else "false"


def _prebuilt(settings: Settings, label: table.Entry, annotation: table.Entry) -> str:
    from_label, from_annotation = (get(PREBUILT_WORKLOAD_NAME) for get in (label, annotation))
    if is_on(settings, "WorkloadIdentifierAnnotations"):
        takes_annotation = f"{from_annotation} != ''"
    else:
        takes_annotation = f"{from_label} == '' && size({from_annotation}) > {_LONGEST_LABEL}"
    return f"{takes_annotation} ? {from_annotation} : {from_label}"


def of_creation(job_kind: JobKind, settings: Settings) -> list[Validation]:
    time = table.label(MAX_EXEC_TIME_SECONDS)
    return [
        queue_name(),
        *_prebuilt_workload(job_kind),
        Validation(
            when=f"'{MAX_EXEC_TIME_SECONDS}' in variables.labels",
            cel=cel.is_positive_number(time),
            message=f"metadata.labels[{MAX_EXEC_TIME_SECONDS}] should be a number greater than 0",
        ),
        *elastic(job_kind),
        *admission_gates.validations(settings),
    ]


def of_update(job_kind: JobKind, settings: Settings) -> list[Validation]:
    queue, time = QUEUE_NAME, MAX_EXEC_TIME_SECONDS
    name = "variables.prebuilt == variables.oldPrebuilt"
    validations = [
        Validation(
            when="!variables.isSuspended",
            cel=f"{table.label(queue)} == {table.old_label(queue)}",
            message=f"{generic.QUEUE_PATH}: field is immutable while the job is not suspended",
        ),
        Validation(
            when="!(variables.isSuspended && variables.wasSuspended)",
            cel=f"{table.label(time)} == {table.old_label(time)}",
            message=f"metadata.labels[{time}]: field is immutable while the job is not suspended",
        ),
        Validation(
            when="!variables.isSuspended && !variables.wasElastic",
            cel=name,
            message=f"{_PREBUILT_PATH}: field is immutable while the job is not suspended",
        ),
        *table.under("variables.isSuspended || variables.wasElastic", _prebuilt_workload(job_kind)),
        *priority_class("variables.isSuspended"),
        Validation(cel="variables.isElastic == variables.wasElastic", message=f"{_ELASTIC_PATH}: field is immutable"),
        *admission_gates.validations(settings),
    ]
    return table.under(IS_UPDATE, validations)


def queue_name() -> Validation:
    return Validation(
        when=f"'{QUEUE_NAME}' in variables.labels",
        cel=cel.is_dns_subdomain(table.label(QUEUE_NAME)),
        message=f"{generic.QUEUE_PATH} must be a lowercase RFC 1123 subdomain",
    )


def elastic(job_kind: JobKind) -> list[Validation]:
    if job_kind.can_be_elastic:
        return []
    message = f'{_ELASTIC_PATH}: elastic job is not supported for "{job_kind.group_version_kind}"'
    return [Validation(cel="!variables.isElastic", message=message)]


def _prebuilt_workload(job_kind: JobKind) -> list[Validation]:
    is_given = f"(variables.prebuilt != '' || '{PREBUILT_WORKLOAD_NAME}' in variables.labels)"
    validations = [
        Validation(
            when=is_given,
            cel=cel.is_dns_subdomain("variables.prebuilt"),
            message=f"{_PREBUILT_PATH} must be a lowercase RFC 1123 subdomain",
        )
    ]
    if job_kind.accepts_prebuilt_workload:
        return validations
    message = f'{_PREBUILT_PATH}: Is not supported for "{job_kind.group_version_kind}"'
    return [*validations, Validation(cel="variables.prebuilt == ''", message=message)]


def priority_class(is_suspended: str) -> list[Validation]:
    after, before = (get(PRIORITY_CLASS) for get in (table.label, table.old_label))
    validations = [
        Validation(
            when=f"!({is_suspended})",
            cel=f"{before} != '' || {after} == ''",
            message=generic.PRIORITY_CLASS_ADDED,
        ),
        Validation(cel=f"{before} == '' || {after} != ''", message=generic.PRIORITY_CLASS_REMOVED),
    ]
    return table.under(IS_UPDATE, validations)


def _once(validations: list[Validation]) -> tuple[Validation, ...]:
    """The table without repeated rules: some hold both at creation and at update."""
    return tuple(dict.fromkeys(validations))


def plain(
    job_kind: JobKind,
    settings: Settings,
    *,
    templates: str = "",
    groups: bool = False,
    more: tuple[Validation, ...] = (),
) -> Table:
    """The table of a kind with a suspend field whose creation rules hold at every write."""
    rules = [*of_creation(job_kind, settings), *of_update(job_kind, settings), *more]
    named = variables(settings, Suspension.of(job_kind))
    if templates:
        named = (*named, topology.variable(templates))
        rules += topology.validations(settings, groups=groups)
    return Table(variables=named, validations=_once(rules))


def of_replicas(rules: replicas.ReplicatedJob, settings: Settings) -> Table:
    """Kubeflow's jobs and MPIJob: templates by role."""
    specs = f"object.spec.?{rules.field}"
    roles = [
        f"({specs}.?{role}.hasValue() ? ["
        + topology.template(f"{specs}.?{role}.?template", f"{specs}.?{role}.?replicas.orValue(1)")
        + "] : [])"
        for role in rules.roles
    ]
    return plain(rules.job_kind, settings, templates=" + ".join(roles), groups=rules.groups_pod_sets)


def of_job_set(job_kind: JobKind, settings: Settings) -> Table:
    spec = "j.?template.?spec"
    parallelism = f"{spec}.?parallelism.orValue(1)"
    completions = f"{spec}.?completions.orValue({parallelism})"
    pods = f"({completions} < {parallelism} ? {completions} : {parallelism})"
    entry = topology.template(f"{spec}.?template", f"j.?replicas.orValue(1) * {pods}")
    templates = f"object.spec.?replicatedJobs.orValue([]).map(j, {entry})"
    return plain(job_kind, settings, templates=templates, groups=True)
