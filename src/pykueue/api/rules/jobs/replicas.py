"""Jobs of replicated pod templates: the Kubeflow v1 jobs, MPIJob, JobSet and AppWrapper."""

import msgspec

from pykueue.api.errors import FieldError
from pykueue.api.labels import POD_INDEX_OFFSET, POD_SET_GROUP_NAME
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import generic, job_kinds, management, topology
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult


class ReplicatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one kind: pod sets are below `field`, by role; `roles` has Kueue's order."""

    job_kind: JobKind
    field: str = ""
    roles: tuple[str, ...] = ()
    groups_pod_sets: bool = False

    def default(self, request: AdmissionRequest) -> None:
        if request.operation == "CREATE":
            generic.default(request, self.job_kind)

    def validate(self, request: AdmissionRequest) -> ValidationResult:
        field_errors: list[FieldError] = []
        if request.old is not None:
            is_suspended = self.job_kind.is_suspended(request.object)
            field_errors += generic.check_update(request, self.job_kind, request.old, is_suspended=is_suspended)
        field_errors += generic.check_create(request, self.job_kind)
        field_errors += topology.check(request, self.templates(request.object), groups=self.groups_pod_sets)
        return ValidationResult(denied=tuple(field_errors), webhook=self.job_kind.webhook)

    def templates(self, job: Object) -> list[Template]:
        replicas = reading.mapping(reading.at(job, "spec", self.field))
        return [
            Template.of(
                f"spec.{self.field}[{role}].template",
                reading.at(replicas, role, "template"),
                reading.integer(reading.at(replicas, role, "replicas"), 1),
            )
            for role in self.roles
            if isinstance(replicas.get(role), dict)
        ]


class JobSetRules(ReplicatedJob, frozen=True, kw_only=True):
    def templates(self, job: Object) -> list[Template]:
        templates = []
        for index, replicated in enumerate(reading.mappings(reading.at(job, "spec", "replicatedJobs"))):
            spec = reading.mapping(reading.at(replicated, "template", "spec"))
            parallelism = reading.integer(spec.get("parallelism"), 1)
            pods = min(parallelism, reading.integer(spec.get("completions"), parallelism))
            count = reading.integer(replicated.get("replicas"), 1) * pods
            path = f"spec.replicatedJobs[{index}].template.spec.template"
            templates.append(Template.of(path, spec.get("template"), count))
        return templates


def _replicated(job_kind: JobKind, field: str, *roles: str, groups: bool = False) -> ReplicatedJob:
    return ReplicatedJob(job_kind=job_kind, field=field, roles=roles, groups_pod_sets=groups)


PYTORCH_JOB = _replicated(job_kinds.PYTORCH_JOB, "pytorchReplicaSpecs", "Master", "Worker")
TF_JOB = _replicated(job_kinds.TF_JOB, "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator")
XGBOOST_JOB = _replicated(job_kinds.XGBOOST_JOB, "xgbReplicaSpecs", "Master", "Worker")
PADDLE_JOB = _replicated(job_kinds.PADDLE_JOB, "paddleReplicaSpecs", "Master", "Worker")
JAX_JOB = _replicated(job_kinds.JAX_JOB, "jaxReplicaSpecs", "Worker")
MPI_JOB = _replicated(job_kinds.MPI_JOB, "mpiReplicaSpecs", "Launcher", "Worker", groups=True)
JOB_SET = JobSetRules(job_kind=job_kinds.JOB_SET, groups_pod_sets=True)
APP_WRAPPER = ReplicatedJob(job_kind=job_kinds.APP_WRAPPER)
"""Its templates are inside other objects, which Kueue's webhook does not check."""
BY_ROLE = (PYTORCH_JOB, TF_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB, MPI_JOB)


def default_mpi_job(request: AdmissionRequest) -> None:
    """A launcher that also works has rank 0, so that the ranks of the workers start at 1."""
    MPI_JOB.default(request)
    job = request.object
    runs_launcher_as_worker = reading.at(job, "spec", "runLauncherAsWorker") is True
    if request.operation != "CREATE" or not runs_launcher_as_worker:
        return
    replicas = reading.mapping(reading.at(job, "spec", "mpiReplicaSpecs"))
    launcher, worker = replicas.get("Launcher"), replicas.get("Worker")
    if not isinstance(launcher, dict) or not isinstance(worker, dict):
        return
    is_grouped = POD_SET_GROUP_NAME in reading.annotations(reading.mapping(launcher.get("template")))
    if management.is_on(request, "TopologyAwareScheduling") and not is_grouped:
        job_kinds.set_nested(worker, ("template", "metadata", "annotations", POD_INDEX_OFFSET), value="1")
