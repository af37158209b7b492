"""One sync of a TrainJob: the JobSet that its runtime describes, and the JobSet's progress as its own.

The nodes of a job find one another as torch and JAX expect it; other machine learning frameworks get the pods alone.
"""

import copy
from collections.abc import Callable, Sequence
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import statuses
from pykueue.cluster.runtimes import port_mapping
from pykueue.kube.controller import writes
from pykueue.translate.jobs import training_runtime
from pykueue.translate.jobs.framework import ObjectReference
from pykueue.translate.jobs.train_job import FRAMEWORK

FindRuntime = Callable[[ObjectReference], Object | None]

_PORT = "29400"
_NODE = "node"
_RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
_RUNTIME_PAUSE_SECONDS = 1.0


def reconciler(find: FindRuntime) -> Callable[[Object, list[Object], datetime], writes.Sync]:
    def sync(job: Object, owned: list[Object], now: datetime) -> writes.Sync:
        return _sync(job, owned, now, find)

    return sync


def _sync(job: Object, owned: Sequence[Object], now: datetime, find: FindRuntime) -> writes.Sync:
    if objects.is_deleted(job) or FRAMEWORK.finished(job) is not None:
        return writes.Done()
    runtime = _runtime(job, find)
    if runtime is None:
        return writes.Done(look_again_after=_RUNTIME_PAUSE_SECONDS)
    batch = _towards(job, _job_set(job, runtime), owned[0] if owned else None)
    results = (yield batch) if batch else []
    status = _status(job, owned[0] if owned else {}, now)
    refused = yield from statuses.write(resources.TRAIN_JOB, job, status)
    return writes.Done(errors=(*writes.refusals(results), *refused))


def _runtime(job: Object, find: FindRuntime) -> Object | None:
    assert FRAMEWORK.dependency is not None
    reference = FRAMEWORK.dependency.reference(job)
    return None if reference is None else find(reference)


def _towards(job: Object, wanted: Object, present: Object | None) -> list[writes.Write]:
    """A JobSet that runs is left alone. One that waits gets its places; if it asks for something else, it is made anew."""
    if present is None:
        return [writes.Create(resource=resources.JOB_SET, object=wanted)]
    is_running = not job["spec"].get("suspend") and not present["spec"].get("suspend")
    if is_running or objects.is_deleted(present):
        return []
    if _shape(present) != _shape(wanted):
        return [writes.Delete(resource=resources.JOB_SET, object=present)]
    patch = writes.merge_patch(
        {name: present["spec"].get(name) for name in wanted["spec"]}, {**wanted["spec"], "suspend": _is_suspended(job)}
    )
    return [writes.Patch(resource=resources.JOB_SET, object=present, patch={"spec": patch})] if patch else []


def _shape(job_set: Object) -> list[object]:
    """What the JobSet's Jobs keep from the day they are made."""
    specs = [(each["name"], each["template"]["spec"]) for each in job_set["spec"]["replicatedJobs"]]
    return [(name, spec.get("parallelism"), spec["template"]["spec"].get("containers")) for name, spec in specs]


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def _job_set(job: Object, runtime: Object) -> Object:
    template = runtime["spec"]["template"]
    spec = copy.deepcopy(template.get("spec") or {})
    spec["replicatedJobs"] = training_runtime.replicated_jobs(job, runtime, as_admitted=True)
    spec["suspend"] = _is_suspended(job)
    for replicated in spec["replicatedJobs"]:
        replicated["template"]["spec"].setdefault("completionMode", "Indexed")
        _introduce(job, replicated, runtime["spec"].get("mlPolicy") or {})
    noted = template.get("metadata") or {}
    metadata: Object = {key: dict(noted[key]) for key in ("labels", "annotations") if noted.get(key)}
    metadata |= {
        "name": objects.name(job),
        "namespace": objects.namespace(job),
        "ownerReferences": [objects.controller_reference(job)],
    }
    return {"apiVersion": resources.JOB_SET.api_version, "kind": "JobSet", "metadata": metadata, "spec": spec}


def _introduce(job: Object, replicated: Object, policy: Object) -> None:
    """Tells every node how many there are, which one it is, and where the first one listens."""
    variables = _variables(job, int(replicated["template"]["spec"]["parallelism"]), policy)
    if replicated["name"] != _NODE or not variables:
        return
    template = replicated["template"]["spec"].setdefault("template", {})
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations |= {
        port_mapping.GROUP: objects.uid(job),
        port_mapping.NAMES: _first(job),
        port_mapping.PORTS: _PORT,
    }
    for container in (template.get("spec") or {}).get("containers") or ():
        if container["name"] == _NODE:
            added = {each["name"] for each in variables}
            container["env"] = [each for each in container.get("env") or () if each["name"] not in added] + variables


def _first(job: Object) -> str:
    return f"{objects.name(job)}-{_NODE}-0-0.{objects.name(job)}"


def _variables(job: Object, count: int, policy: Object) -> list[Object]:
    if policy.get("torch") is not None:
        processes = (job["spec"].get("trainer") or {}).get("numProcPerNode") or 1
        return [
            {"name": "PET_NNODES", "value": str(count)},
            {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
            {"name": "PET_NODE_RANK", "valueFrom": _RANK},
            {"name": "PET_MASTER_ADDR", "value": _first(job)},
            {"name": "PET_MASTER_PORT", "value": _PORT},
        ]
    if policy.get("jax") is not None:
        return [
            {"name": "JAX_NUM_PROCESSES", "value": str(count)},
            {"name": "JAX_PROCESS_ID", "valueFrom": _RANK},
            {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{_first(job)}:{_PORT}"},
        ]
    return []


def _status(job: Object, job_set: Object, now: datetime) -> Object:
    status = copy.deepcopy(job.get("status") or {})
    conditions = status.get("conditions") or []
    told = _suspension(job)
    if told is not None:
        conditions = api_conditions.replaced(conditions, told, now)
    for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
        found = api_conditions.find(job_set, theirs)
        if found is not None and found["status"] == "True":
            conditions = api_conditions.replaced(conditions, found | {"type": ours}, now)
    if conditions:
        status["conditions"] = conditions
    parts = (job_set.get("status") or {}).get("replicatedJobsStatus")
    if parts:
        status["jobsStatus"] = parts
    return status


def _suspension(job: Object) -> Object | None:
    if _is_suspended(job):
        return {"type": "Suspended", "status": "True", "reason": "Suspended", "message": "TrainJob is suspended"}
    if api_conditions.find(job, "Suspended") is not None:
        return {"type": "Suspended", "status": "False", "reason": "Resumed", "message": "TrainJob is resumed"}
    return None
