"""The training frameworks: replica specs, roles, and the environment variables of the pods."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from pykueue.api import objects, resources
from pykueue.api.scheme import Object, Resource

Variables = Callable[["Member"], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFramework:
    resource: Resource
    replicas_field: str
    roles: tuple[str, ...]
    """Ordered by rank."""
    leaders: tuple[str, ...]
    """The first of these roles decides success; without any, all workers must succeed."""
    container: str
    port: int
    variables: Variables
    idle_role: str = ""
    """The role whose pods only wait for a login over SSH; on one machine they just sleep."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def operator(self) -> str:
        return "mpi-operator" if self.kind == "MPIJob" else f"{self.kind.lower()}-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a training job, by role and index."""

    framework: TrainingFramework
    job: Object
    role: str
    index: int

    @property
    def replicas(self) -> dict[str, int]:
        return counts(self.framework, self.job)

    @property
    def world_size(self) -> int:
        return sum(self.replicas.values())

    @property
    def rank(self) -> int:
        """The global rank: pods of the first role first."""
        before = 0
        for role, count in self.replicas.items():
            if role == self.role:
                break
            before += count
        return before + self.index

    @property
    def name(self) -> str:
        return pod_name(self.job, self.role, self.index)

    @property
    def first(self) -> str:
        """The name of the pod with rank 0, to which all others connect."""
        return pod_name(self.job, next(iter(self.replicas)), 0)

    @property
    def port(self) -> str:
        return str(self.framework.port)


def specs(framework: TrainingFramework, job: Object) -> dict[str, Object]:
    """Replica specs by role, ordered by rank."""
    replica_specs = job["spec"].get(framework.replicas_field) or {}
    return {role: replica_specs[role] for role in framework.roles if role in replica_specs}


def counts(framework: TrainingFramework, job: Object) -> dict[str, int]:
    return {role: int(spec.get("replicas", 1)) for role, spec in specs(framework, job).items()}


def pod_name(job: Object, role: str, index: int) -> str:
    return f"{objects.name(job)}-{role.lower()}-{index}"


def _pytorch(member: Member) -> dict[str, str]:
    processes = str(member.job["spec"].get("nprocPerNode") or "1")
    per_node = int(processes) if processes.isdecimal() else 1
    variables = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": member.first,
        "MASTER_PORT": member.port,
        "PET_MASTER_ADDR": member.first,
        "PET_MASTER_PORT": member.port,
        "WORLD_SIZE": str(member.world_size * per_node),
        "RANK": str(member.rank),
        "PET_NODE_RANK": str(member.rank),
        "PET_NNODES": str(member.world_size),
    }
    if "nprocPerNode" in member.job["spec"]:
        variables["PET_NPROC_PER_NODE"] = processes
    return variables | _elastic(member)


def _elastic(member: Member) -> dict[str, str]:
    policy = member.job["spec"].get("elasticPolicy")
    if not policy:
        return {}
    minimum = policy.get("minReplicas", member.world_size)
    variables = {
        "PET_RDZV_BACKEND": policy.get("rdzvBackend", "c10d"),
        "PET_RDZV_ENDPOINT": f"{policy.get('rdzvHost', member.first)}:{policy.get('rdzvPort', member.port)}",
        "PET_NNODES": f"{minimum}:{policy.get('maxReplicas', minimum)}",
    }
    for field, name in (("rdzvId", "PET_RDZV_ID"), ("maxRestarts", "PET_MAX_RESTARTS")):
        if field in policy:
            variables[name] = str(policy[field])
    return variables


def _tensorflow(member: Member) -> dict[str, str]:
    cluster = {
        role.lower(): [f"{pod_name(member.job, role, index)}:{member.port}" for index in range(count)]
        for role, count in member.replicas.items()
        if role != "Evaluator"
    }
    task = {"type": member.role.lower(), "index": member.index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}


def _xgboost(member: Member) -> dict[str, str]:
    workers = [pod_name(member.job, "Worker", index) for index in range(member.replicas.get("Worker", 0))]
    variables = {
        "MASTER_ADDR": member.first,
        "MASTER_PORT": member.port,
        "WORLD_SIZE": str(member.world_size),
        "RANK": str(member.rank),
        "PYTHONUNBUFFERED": "1",
    }
    return variables | ({"WORKER_PORT": member.port, "WORKER_ADDRS": ",".join(workers)} if workers else {})


def _paddle(member: Member) -> dict[str, str]:
    return {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": objects.name(member.job),
        "PADDLE_NNODES": str(member.world_size),
        "PADDLE_MASTER": f"{member.first}:{member.port}",
    }


def _jax(member: Member) -> dict[str, str]:
    return {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_ADDRESS": member.first,
        "COORDINATOR_PORT": member.port,
        "NUM_PROCESSES": str(member.world_size),
        "PROCESS_ID": str(member.rank),
    }


_ON_ONE_MACHINE = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""All MPI processes start on this machine, so Open MPI must allow more of them than cores."""


def _mpi(member: Member) -> dict[str, str]:
    workers = [pod_name(member.job, "Worker", index) for index in range(member.replicas.get("Worker", 0))]
    variables = {"K_MPI_JOB_ROLE": member.role.lower(), "MPI_HOSTS": ",".join(workers)}
    return variables | (_ON_ONE_MACHINE if member.role == "Launcher" else {})


_MASTER_AND_WORKERS = ("Master", "Worker")

FRAMEWORKS = (
    TrainingFramework(
        resource=resources.kubeflow("PyTorchJob"),
        replicas_field="pytorchReplicaSpecs",
        roles=_MASTER_AND_WORKERS,
        leaders=("Master",),
        container="pytorch",
        port=23456,
        variables=_pytorch,
    ),
    TrainingFramework(
        resource=resources.kubeflow("TFJob"),
        replicas_field="tfReplicaSpecs",
        roles=("Chief", "Master", "PS", "Worker", "Evaluator"),
        leaders=("Chief", "Master"),
        container="tensorflow",
        port=2222,
        variables=_tensorflow,
    ),
    TrainingFramework(
        resource=resources.kubeflow("XGBoostJob"),
        replicas_field="xgbReplicaSpecs",
        roles=_MASTER_AND_WORKERS,
        leaders=("Master",),
        container="xgboost",
        port=9999,
        variables=_xgboost,
    ),
    TrainingFramework(
        resource=resources.kubeflow("PaddleJob"),
        replicas_field="paddleReplicaSpecs",
        roles=_MASTER_AND_WORKERS,
        leaders=("Master",),
        container="paddle",
        port=36543,
        variables=_paddle,
    ),
    TrainingFramework(
        resource=resources.kubeflow("JAXJob"),
        replicas_field="jaxReplicaSpecs",
        roles=("Worker",),
        leaders=(),
        container="jax",
        port=6666,
        variables=_jax,
    ),
    TrainingFramework(
        resource=resources.kubeflow("MPIJob", "v2beta1"),
        replicas_field="mpiReplicaSpecs",
        roles=("Launcher", "Worker"),
        leaders=("Launcher",),
        container="mpi",
        port=22,
        variables=_mpi,
        idle_role="Worker",
    ),
)
