"""What Kubeflow Trainer makes of a TrainJob: the replicated jobs of a runtime's JobSet, with the TrainJob's own wishes filled in.

Only what Kueue counts and compares: numbers of pods, images, commands, resources, variables. What a machine learning framework
needs to find its peers is added by the Trainer itself and costs no quota. Called by `train_job` and by the machine room.
"""

from collections.abc import Iterable
from typing import Any

from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object

MANAGER = "kueue.x-k8s.io/manager"
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER, _NODE = "trainer", "node"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_MERGE_KEYS = {
    **dict.fromkeys(("containers", "env", "imagePullSecrets", "initContainers", "resourceClaims", "volumes"), "name"),
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}


def replicated_jobs(train_job: Object, runtime: Object, *, as_admitted: bool = False) -> list[Object]:
    """`as_admitted`: with what an admission gives, which is no part of what a job asks for."""
    wishes: Object = copied(train_job["spec"])
    spec = runtime.get("spec") or {}
    policy = spec.get("mlPolicy")
    found: list[Object] = copied(((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or [])
    patches = wishes.get("runtimePatches") or ()
    _patch(found, (patch for patch in patches if as_admitted or patch.get("manager") != MANAGER))
    trainer = next((job["name"] for job in found if _step(job) == _TRAINER), None)
    for job in found:
        count = _count(job, policy)
        if job["name"] == _resized(trainer, policy):
            count = _wanted(wishes, policy, count)
        job_spec = job.setdefault("template", {}).setdefault("spec", {})
        job_spec |= {"parallelism": count, "completions": count}
        _fill_in(job, wishes, policy)
    return found


def _step(job: Object) -> str:
    metadata = (job.get("template") or {}).get("metadata") or {}
    return str((metadata.get("labels") or {}).get(_STEP_LABEL, ""))


def _count(job: Object, policy: Object | None) -> int:
    if _step(job) == _TRAINER and policy is not None:
        nodes = policy.get("numNodes")
    else:
        nodes = ((job.get("template") or {}).get("spec") or {}).get("parallelism")
    return max(1 if nodes is None else int(nodes), 1)


def _resized(trainer: str | None, policy: Object | None) -> str | None:
    """The replicated job that a TrainJob's number of nodes is meant for: with MPI, not the launcher."""
    return _NODE if _mpi(policy) is not None else trainer


def _mpi(policy: Object | None) -> Object | None:
    return (policy or {}).get("mpi")


def _launcher_works(policy: Object | None) -> bool:
    return bool((_mpi(policy) or {}).get("runLauncherAsNode"))


def _wanted(wishes: Object, policy: Object | None, count: int) -> int:
    nodes = (wishes.get("trainer") or {}).get("numNodes")
    if nodes is None:
        return count
    return max(int(nodes) - 1, 1) if _launcher_works(policy) else int(nodes)


def _fill_in(job: Object, wishes: Object, policy: Object | None) -> None:
    step = _step(job)
    trainer = wishes.get("trainer") or {}
    if step == _TRAINER or step in _INITIALIZERS:
        job["replicas"] = 1
    for container in _containers(job):
        if step in _INITIALIZERS and container["name"] == step:
            _initialize(container, (wishes.get("initializer") or {}).get(_INITIALIZERS[step]))
        if container["name"] != _NODE:
            continue
        if step == _TRAINER:
            container |= {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name) is not None}
        if step == _TRAINER or (_launcher_works(policy) and job["name"] == _NODE):
            resources = trainer.get("resourcesPerNode") or {}
            if resources.get("limits") or resources.get("requests"):
                container["resources"] = {name: resources[name] for name in ("limits", "requests") if name in resources}
            _set_variables(container, trainer.get("env") or ())


def _containers(job: Object) -> list[Object]:
    template = job["template"]["spec"].get("template") or {}
    found: list[Object] = (template.get("spec") or {}).get("containers") or []
    return found


def _initialize(container: Object, wish: Object | None) -> None:
    if wish is None:
        return
    if wish.get("storageUri") is not None:
        _set_variables(container, [{"name": "STORAGE_URI", "value": wish["storageUri"]}])
    _set_variables(container, wish.get("env") or ())
    if wish.get("secretRef") is not None:
        container.setdefault("envFrom", []).append({"secretRef": {"name": wish["secretRef"].get("name", "")}})


def _set_variables(container: Object, variables: Iterable[Object]) -> None:
    by_name = {each["name"]: each for each in (*(container.get("env") or ()), *variables)}
    if by_name:
        container["env"] = list(by_name.values())


def _patch(jobs: list[Object], patches: Iterable[Object]) -> None:
    for patch in patches:
        template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        for change in (template.get("spec") or {}).get("replicatedJobs") or ():
            for job in jobs:
                if job["name"] == change.get("name") and change.get("template"):
                    job["template"] = _merged(job.get("template") or {}, change["template"])


def _merged(target: Any, patch: Any, merge_key: str | None = None) -> Any:
    """A strategic merge, as far as a runtime patch can go."""
    if isinstance(target, dict) and isinstance(patch, dict):
        merged = {**target}
        for name, value in patch.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = _merged(target.get(name), value, _MERGE_KEYS.get(name))
        return merged
    if isinstance(target, list) and isinstance(patch, list) and merge_key is not None:
        by_key = {item.get(merge_key): item for item in target}
        for item in patch:
            by_key[item.get(merge_key)] = _merged(by_key.get(item.get(merge_key)), item)
        return list(by_key.values())
    return patch
