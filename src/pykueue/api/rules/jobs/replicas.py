"""Jobs made of replicated templates: the Kubeflow v1 jobs, MPIJob, JobSet and AppWrapper."""

from dataclasses import dataclass

from pykueue.api.errors import FieldError
from pykueue.api.rules import reading
from pykueue.api.rules.jobs import frameworks, generic, management, topology
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import Object, Request, Verdict

POD_INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedJob:
    """The rules of one kind: its pod sets stand below `field`, by role, in Kueue's order of `roles`."""

    framework: Framework
    field: str = ""
    roles: tuple[str, ...] = ()
    groups_pod_sets: bool = False

    def default(self, request: Request) -> list[str]:
        if request.operation == "CREATE":
            generic.default(request, self.framework)
        return []

    def validate(self, request: Request) -> Verdict:
        found: list[FieldError] = []
        if request.old is not None:
            is_suspended = self.framework.is_suspended(request.object)
            found += generic.check_update(request, self.framework, request.old, is_suspended=is_suspended)
        found += generic.check_create(request, self.framework)
        found += topology.check(request, self.templates(request.object), groups=self.groups_pod_sets)
        return Verdict(denied=tuple(found), webhook=self.framework.webhook)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetRules(ReplicatedJob):
    def templates(self, job: Object) -> list[Template]:
        found = []
        for index, replicated in enumerate(reading.mappings(reading.at(job, "spec", "replicatedJobs"))):
            spec = reading.mapping(reading.at(replicated, "template", "spec"))
            parallelism = reading.integer(spec.get("parallelism"), 1)
            pods = min(parallelism, reading.integer(spec.get("completions"), parallelism))
            count = reading.integer(replicated.get("replicas"), 1) * pods
            path = f"spec.replicatedJobs[{index}].template.spec.template"
            found.append(Template.of(path, spec.get("template"), count))
        return found


def _replicated(framework: Framework, field: str, *roles: str, groups: bool = False) -> ReplicatedJob:
    return ReplicatedJob(framework=framework, field=field, roles=roles, groups_pod_sets=groups)


PYTORCH_JOB = _replicated(frameworks.PYTORCH_JOB, "pytorchReplicaSpecs", "Master", "Worker")
TF_JOB = _replicated(frameworks.TF_JOB, "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator")
XGBOOST_JOB = _replicated(frameworks.XGBOOST_JOB, "xgbReplicaSpecs", "Master", "Worker")
PADDLE_JOB = _replicated(frameworks.PADDLE_JOB, "paddleReplicaSpecs", "Master", "Worker")
JAX_JOB = _replicated(frameworks.JAX_JOB, "jaxReplicaSpecs", "Worker")
MPI_JOB = _replicated(frameworks.MPI_JOB, "mpiReplicaSpecs", "Launcher", "Worker", groups=True)
JOB_SET = JobSetRules(framework=frameworks.JOB_SET, groups_pod_sets=True)
APP_WRAPPER = ReplicatedJob(framework=frameworks.APP_WRAPPER)
"""Its templates are inside other objects, where Kueue's webhook does not look."""
BY_ROLE = (PYTORCH_JOB, TF_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB, MPI_JOB)


def default_mpi_job(request: Request) -> list[str]:
    """A launcher that also works has rank 0, so the workers' ranks start at 1."""
    MPI_JOB.default(request)
    job = request.object
    runs_launcher_as_worker = reading.at(job, "spec", "runLauncherAsWorker") is True
    if request.operation != "CREATE" or not runs_launcher_as_worker:
        return []
    replicas = reading.mapping(reading.at(job, "spec", "mpiReplicaSpecs"))
    launcher, worker = replicas.get("Launcher"), replicas.get("Worker")
    if not isinstance(launcher, dict) or not isinstance(worker, dict):
        return []
    is_grouped = topology.GROUP_NAME in reading.annotations(reading.mapping(launcher.get("template")))
    if management.is_on(request, "TopologyAwareScheduling") and not is_grouped:
        frameworks.put(worker, ("template", "metadata", "annotations", POD_INDEX_OFFSET), value="1")
    return []
