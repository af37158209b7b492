"""One sync of a TrainJob: creates the JobSet of its runtime, and copies the JobSet's status.

For torch and JAX the pods get the variables that their nodes use to find each other; other
frameworks get none.
"""

import copy
from collections.abc import Callable, Sequence
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, reserved_keys, resources
from pykueue.api.rules import operators
from pykueue.api.scheme import Object
from pykueue.cluster import statuses
from pykueue.cluster.job_controller.job_view import INDEX
from pykueue.kube.controller import writes
from pykueue.translate.jobs import training_runtime
from pykueue.translate.jobs.framework import ObjectReference
from pykueue.translate.jobs.train_job import FRAMEWORK

FindRuntime = Callable[[ObjectReference], Object | None]

_PORT = "29400"
_NODE = "node"
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
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
        return writes.Done(requeue_after_ns=writes.after_seconds(_RUNTIME_PAUSE_SECONDS))
    batch = _job_set_writes(job, _job_set(job, runtime), owned[0] if owned else None)
    results = (yield batch) if batch else []
    status = _status(job, owned[0] if owned else {}, now)
    refused = yield from statuses.write(resources.TRAIN_JOB, job, status)
    return writes.Done(errors=(*writes.refusals(results), *refused))


def _runtime(job: Object, find: FindRuntime) -> Object | None:
    assert FRAMEWORK.dependency is not None
    reference = FRAMEWORK.dependency.reference(job)
    return None if reference is None else find(reference)


def _job_set_writes(job: Object, desired: Object, present: Object | None) -> list[writes.Action]:
    """Create the JobSet, or update a suspended one.

    A running JobSet is not changed. A suspended one is patched, or deleted if a field differs that
    its Jobs cannot change.
    """
    if present is None:
        return [writes.Create(resource=resources.JOB_SET, object=desired)]
    is_running = not job["spec"].get("suspend") and not present["spec"].get("suspend")
    if is_running or objects.is_deleted(present):
        return []
    if _immutable_fields(present) != _immutable_fields(desired):
        return [writes.Delete(resource=resources.JOB_SET, object=present)]
    patch = writes.merge_patch(
        {name: present["spec"].get(name) for name in desired["spec"]},
        {**desired["spec"], "suspend": _is_suspended(job)},
    )
    return [writes.Patch(resource=resources.JOB_SET, object=present, patch={"spec": patch})] if patch else []


def _immutable_fields(job_set: Object) -> list[object]:
    """The fields of the JobSet that its Jobs cannot change after their creation."""
    specs = [(replicated["name"], replicated["template"]["spec"]) for replicated in job_set["spec"]["replicatedJobs"]]
    return [(name, spec.get("parallelism"), spec["template"]["spec"].get("containers")) for name, spec in specs]


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def _job_set(job: Object, runtime: Object) -> Object:
    template = runtime["spec"]["template"]
    spec = copy.deepcopy(objects.spec(template))
    spec["replicatedJobs"] = training_runtime.replicated_jobs(job, runtime, as_admitted=True)
    spec["suspend"] = _is_suspended(job)
    operators.default_job_set_spec(spec)
    for replicated in spec["replicatedJobs"]:
        _add_variables(job, replicated, objects.nested(runtime, "spec", "mlPolicy"))
    template_metadata = objects.nested(template, "metadata")
    metadata: Object = {
        key: dict(template_metadata[key]) for key in ("labels", "annotations") if template_metadata.get(key)
    }
    metadata |= {
        "name": objects.name(job),
        "namespace": objects.namespace(job),
        "ownerReferences": [objects.controller_reference(job)],
    }
    return {"apiVersion": resources.JOB_SET.api_version, "kind": "JobSet", "metadata": metadata, "spec": spec}


def _add_variables(job: Object, replicated: Object, policy: Object) -> None:
    """Add variables with the number of nodes, each node's rank, and the first node's address."""
    variables = _variables(job, int(replicated["template"]["spec"]["parallelism"]), policy)
    if replicated["name"] != _NODE or not variables:
        return
    template = replicated["template"]["spec"].setdefault("template", {})
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations |= {
        reserved_keys.PORT_GROUP: objects.uid(job),
        reserved_keys.LOCAL_NAMES: _first_node(job),
        reserved_keys.LOCAL_PORTS: _PORT,
    }
    for container in objects.nested_list(template, "spec", "containers"):
        if container["name"] == _NODE:
            added = {variable["name"] for variable in variables}
            container["env"] = [
                variable for variable in container.get("env") or () if variable["name"] not in added
            ] + variables


def _first_node(job: Object) -> str:
    return f"{objects.name(job)}-{_NODE}-0-0.{objects.name(job)}"


def _variables(job: Object, count: int, policy: Object) -> list[Object]:
    if policy.get("torch") is not None:
        processes = objects.nested(job, "spec", "trainer").get("numProcPerNode") or 1
        return [
            {"name": "PET_NNODES", "value": str(count)},
            {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
            {"name": "PET_NODE_RANK", "valueFrom": _RANK},
            {"name": "PET_MASTER_ADDR", "value": _first_node(job)},
            {"name": "PET_MASTER_PORT", "value": _PORT},
        ]
    if policy.get("jax") is not None:
        return [
            {"name": "JAX_NUM_PROCESSES", "value": str(count)},
            {"name": "JAX_PROCESS_ID", "valueFrom": _RANK},
            {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{_first_node(job)}:{_PORT}"},
        ]
    return []


def _status(job: Object, job_set: Object, now: datetime) -> Object:
    status = copy.deepcopy(objects.status(job))
    conditions = status.get("conditions") or []
    suspended = _suspension(job)
    if suspended is not None:
        conditions = api_conditions.replaced(conditions, suspended, now)
    for job_set_type, type_ in (("Completed", "Complete"), ("Failed", "Failed")):
        condition = api_conditions.find(job_set, job_set_type)
        if condition is not None and api_conditions.has_status_true(condition):
            conditions = api_conditions.replaced(conditions, condition | {"type": type_}, now)
    if conditions:
        status["conditions"] = conditions
    jobs_status = objects.status(job_set).get("replicatedJobsStatus")
    if jobs_status:
        status["jobsStatus"] = jobs_status
    return status


def _suspension(job: Object) -> Object | None:
    if _is_suspended(job):
        return {"type": "Suspended", "status": "True", "reason": "Suspended", "message": "TrainJob is suspended"}
    if api_conditions.find(job, "Suspended") is not None:
        return {"type": "Suspended", "status": "False", "reason": "Resumed", "message": "TrainJob is resumed"}
    return None
