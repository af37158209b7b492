"""The replicated jobs that Kubeflow Trainer makes of a TrainJob and its runtime.

Only the fields that Kueue counts and compares are filled in: counts of pods, images, commands,
resources and variables. The Trainer adds what the training framework needs to find its peers,
which takes no quota. Called by `train_job` and by the embedded cluster's TrainJob operator.
"""

from collections.abc import Iterable
from typing import Any

from pykueue.api import objects
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
    """`as_admitted` includes Kueue's own runtime patch, which quota does not count."""
    spec: Object = copied(objects.spec(train_job))
    runtime_spec = runtime.get("spec") or {}
    policy = runtime_spec.get("mlPolicy")
    jobs: list[Object] = copied(objects.nested_list(runtime_spec, "template", "spec", "replicatedJobs"))
    patches = spec.get("runtimePatches") or ()
    _patch(jobs, (patch for patch in patches if as_admitted or patch.get("manager") != MANAGER))
    trainer = next((job["name"] for job in jobs if _step(job) == _TRAINER), None)
    for job in jobs:
        count = _count(job, policy)
        if job["name"] == _resized(trainer, policy):
            count = _node_count(spec, policy, count)
        job_spec = job.setdefault("template", {}).setdefault("spec", {})
        job_spec |= {"parallelism": count, "completions": count}
        _fill_in(job, spec, policy)
    return jobs


def _step(job: Object) -> str:
    return str(objects.nested(job, "template", "metadata", "labels").get(_STEP_LABEL, ""))


def _count(job: Object, policy: Object | None) -> int:
    if _step(job) == _TRAINER and policy is not None:
        nodes = policy.get("numNodes")
    else:
        nodes = objects.nested(job, "template", "spec").get("parallelism")
    return max(1 if nodes is None else int(nodes), 1)


def _resized(trainer: str | None, policy: Object | None) -> str | None:
    """The replicated job that `numNodes` applies to: with MPI it is not the launcher."""
    return _NODE if _mpi(policy) is not None else trainer


def _mpi(policy: Object | None) -> Object | None:
    return (policy or {}).get("mpi")


def _launcher_is_node(policy: Object | None) -> bool:
    return bool((_mpi(policy) or {}).get("runLauncherAsNode"))


def _node_count(train_job_spec: Object, policy: Object | None, count: int) -> int:
    nodes = objects.nested(train_job_spec, "trainer").get("numNodes")
    if nodes is None:
        return count
    return max(int(nodes) - 1, 1) if _launcher_is_node(policy) else int(nodes)


def _fill_in(job: Object, train_job_spec: Object, policy: Object | None) -> None:
    step = _step(job)
    trainer = train_job_spec.get("trainer") or {}
    if step == _TRAINER or step in _INITIALIZERS:
        job["replicas"] = 1
    for container in _containers(job):
        if step in _INITIALIZERS and container["name"] == step:
            _initialize(container, objects.nested(train_job_spec, "initializer").get(_INITIALIZERS[step]))
        if container["name"] != _NODE:
            continue
        if step == _TRAINER:
            container |= {name: trainer[name] for name in ("image", "command", "args") if trainer.get(name) is not None}
        if step == _TRAINER or (_launcher_is_node(policy) and job["name"] == _NODE):
            resources = trainer.get("resourcesPerNode") or {}
            if resources.get("limits") or resources.get("requests"):
                container["resources"] = {name: resources[name] for name in ("limits", "requests") if name in resources}
            _set_variables(container, trainer.get("env") or ())


def _containers(job: Object) -> list[Object]:
    template = job["template"]["spec"].get("template") or {}
    return objects.nested_list(template, "spec", "containers")


def _initialize(container: Object, initializer: Object | None) -> None:
    if initializer is None:
        return
    if initializer.get("storageUri") is not None:
        _set_variables(container, [{"name": "STORAGE_URI", "value": initializer["storageUri"]}])
    _set_variables(container, initializer.get("env") or ())
    if initializer.get("secretRef") is not None:
        container.setdefault("envFrom", []).append({"secretRef": {"name": initializer["secretRef"].get("name", "")}})


def _set_variables(container: Object, variables: Iterable[Object]) -> None:
    by_name = {variable["name"]: variable for variable in (*(container.get("env") or ()), *variables)}
    if by_name:
        container["env"] = list(by_name.values())


def _patch(jobs: list[Object], patches: Iterable[Object]) -> None:
    for patch in patches:
        for change in objects.nested_list(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs"):
            for job in jobs:
                if job["name"] == change.get("name") and change.get("template"):
                    job["template"] = _merged(job.get("template") or {}, change["template"])


def _merged(target: Any, patch: Any, merge_key: str | None = None) -> Any:
    """A strategic merge of the lists that a runtime patch may change."""
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
