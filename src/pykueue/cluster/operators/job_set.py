"""One sync of a JobSet: creates, suspends, resumes and restarts all its replicated Jobs."""

import copy
from collections.abc import Sequence
from datetime import datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, statuses
from pykueue.cluster.job_controller import job_view
from pykueue.kube.controller import writes

_PREFIX = "jobset.sigs.k8s.io/"
ATTEMPT = f"{_PREFIX}restart-attempt"
_REPLICATED_JOB = f"{_PREFIX}replicatedjob-name"


def sync(job_set: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(job_set) or _is_finished(job_set):
        return writes.Done()
    status = copy.deepcopy(objects.status(job_set))
    attempt = int(status.get("restarts", 0))
    current = [job for job in owned if objects.labels(job).get(ATTEMPT, "0") == str(attempt)]
    batch: list[writes.Action] = [
        writes.Delete(resource=resources.JOB, object=job)
        for job in owned
        if job not in current and not objects.is_deleted(job)
    ]
    status["replicatedJobsStatus"] = [_replicated_status(spec, current) for spec in _specs(job_set)]
    failed = [job for job in current if (job_view.finished_condition(job) or {}).get("type") == "Failed"]
    if failed and attempt < int(objects.nested(job_set, "spec", "failurePolicy").get("maxRestarts", 0)):
        status["restarts"] = attempt + 1
    elif (final_condition := _ending(job_set, current, failed)) is not None:
        status["terminalState"] = final_condition["type"]
        status["conditions"] = conditions.replaced(status.get("conditions") or (), final_condition, now)
        batch.append(_event(job_set, final_condition["reason"], final_condition["message"]))
    else:
        batch += _jobs(job_set, owned, current, attempt)
        condition = _suspension(job_set)
        if condition is not None:
            status["conditions"] = conditions.replaced(status.get("conditions") or (), condition, now)
    results = (yield batch) if batch else []
    refused = yield from statuses.write(resources.JOB_SET, job_set, status)
    return writes.Done(errors=(*writes.refusals(results), *refused))


def _is_finished(job_set: Object) -> bool:
    return conditions.is_true(job_set, "Completed") or conditions.is_true(job_set, "Failed")


def _specs(job_set: Object) -> list[Object]:
    return objects.nested_list(job_set, "spec", "replicatedJobs")


def _event(job_set: Object, reason: str, message: str) -> writes.Event:
    type_ = "Warning" if reason == "FailedJobs" else "Normal"
    return writes.Event(about=job_set, type=type_, reason=reason, message=message)


def _jobs(job_set: Object, owned: Sequence[Object], current: Sequence[Object], attempt: int) -> list[writes.Action]:
    """Create missing Jobs, and suspend or resume existing ones.

    A Job of the next attempt has the same name, so it is created when the old one no longer
    exists.
    """
    batch: list[writes.Action] = []
    is_suspended = bool(job_set["spec"].get("suspend"))
    used_names = {objects.name(job) for job in owned}
    for spec in _specs(job_set):
        prefix = f"{objects.name(job_set)}-{spec['name']}"
        indexes = range(int(spec.get("replicas", 1)))
        missing = (index for index in indexes if f"{prefix}-{index}" not in used_names)
        for index in pod_control.batch(missing, len(owned) + len(batch))[: pod_control.MOST_AT_ONCE]:
            job = _job(job_set, spec, index, attempt)
            batch.append(writes.Create(resource=resources.JOB, object=job))
        if not is_suspended and _waits_for_order(job_set, spec, current):
            break
    stale = [job for job in current if bool(job["spec"].get("suspend")) != is_suspended]
    batch += [
        writes.Patch(
            resource=resources.JOB,
            object=job,
            patch=_resumption(job_set, job, is_suspended=is_suspended),
            guarded=False,
        )
        for job in stale
        if job_view.finished_condition(job) is None
    ]
    return batch


def _resumption(job_set: Object, job: Object, *, is_suspended: bool) -> Object:
    """The patch that suspends a Job, or resumes it with the admitted node selector."""
    patch: Object = {"spec": {"suspend": is_suspended}}
    role = objects.labels(job).get(_REPLICATED_JOB)
    spec = next((entry for entry in _specs(job_set) if entry["name"] == role), None)
    if not is_suspended and spec is not None:
        template = objects.nested(spec, "template", "spec", "template")
        admitted = objects.spec(template)
        pod_spec = {key: admitted[key] for key in ("nodeSelector", "tolerations") if key in admitted}
        metadata = objects.nested(template, "metadata")
        patch["spec"]["template"] = {
            "spec": pod_spec,
            "metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata},
        }
    return patch


def _waits_for_order(job_set: Object, spec: Object, current: Sequence[Object]) -> bool:
    """Whether startupPolicy InOrder delays the next replicated Job: this one is not ready."""
    if objects.nested(job_set, "spec", "startupPolicy").get("startupPolicyOrder") != "InOrder":
        return False
    status = _replicated_status(spec, current)
    return bool(status["ready"] + status["succeeded"] < int(spec.get("replicas", 1)))


def _job(job_set: Object, spec: Object, index: int, attempt: int) -> Object:
    template = objects.nested(spec, "template")
    name = f"{objects.name(job_set)}-{spec['name']}-{index}"
    labels = {
        f"{_PREFIX}jobset-name": objects.name(job_set),
        _REPLICATED_JOB: spec["name"],
        f"{_PREFIX}replicatedjob-replicas": str(spec.get("replicas", 1)),
        f"{_PREFIX}job-index": str(index),
        ATTEMPT: str(attempt),
    }
    metadata = copy.deepcopy(objects.nested(template, "metadata"))
    job_spec = copy.deepcopy(objects.spec(template)) | {"suspend": bool(job_set["spec"].get("suspend"))}
    pod_template = job_spec.setdefault("template", {})
    pod_metadata = pod_template.setdefault("metadata", {})
    for target in (metadata, pod_metadata):
        target["labels"] = (target.get("labels") or {}) | labels
        target["annotations"] = (target.get("annotations") or {}) | labels
    network = objects.nested(job_set, "spec", "network")
    if network.get("enableDNSHostnames", True):
        pod_template.setdefault("spec", {})["subdomain"] = network.get("subdomain") or objects.name(job_set)
    metadata |= {
        "name": name,
        "namespace": objects.namespace(job_set),
        "ownerReferences": [objects.controller_reference(job_set)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec}


def _jobs_of(spec: Object, current: Sequence[Object]) -> list[Object]:
    return [job for job in current if objects.labels(job).get(_REPLICATED_JOB) == spec["name"]]


def _replicated_status(spec: Object, current: Sequence[Object]) -> Object:
    counts = {"name": spec["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    for job in _jobs_of(spec, current):
        status = objects.status(job)
        finished = job_view.finished_condition(job)
        desired = min(int(job["spec"].get("parallelism", 1)), int(job["spec"].get("completions") or 1))
        if finished is not None:
            counts["succeeded" if finished["type"] == "Complete" else "failed"] += 1
        elif job["spec"].get("suspend"):
            counts["suspended"] += 1
        else:
            counts["active"] += bool(status.get("active"))
            counts["ready"] += (status.get("ready") or 0) + (status.get("succeeded") or 0) >= desired
    return counts


def _suspension(job_set: Object) -> Object | None:
    if job_set["spec"].get("suspend"):
        return {"type": "Suspended", "status": "True", "reason": "SuspendedJobs", "message": "jobset is suspended"}
    if conditions.find(job_set, "Suspended") is not None:
        return {"type": "Suspended", "status": "False", "reason": "ResumeJobs", "message": "jobset is resumed"}
    return None


def _ending(job_set: Object, current: Sequence[Object], failed: Sequence[Object]) -> Object | None:
    """The final condition if the JobSet has finished, else None."""
    if failed:
        ends = [
            ((job_view.finished_condition(job) or {}).get("lastTransitionTime", ""), objects.name(job))
            for job in failed
        ]
        message = f"jobset failed due to one or more job failures (first failed job: {min(ends)[1]})"
        return {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": message}
    policy = objects.nested(job_set, "spec", "successPolicy")
    targets = [
        spec
        for spec in _specs(job_set)
        if not policy.get("targetReplicatedJobs") or spec["name"] in policy["targetReplicatedJobs"]
    ]
    done = [_replicated_status(spec, current)["succeeded"] for spec in targets]
    desired = [int(spec.get("replicas", 1)) for spec in targets]
    is_complete = any(done) if policy.get("operator") == "Any" else done == desired
    if targets and is_complete:
        message = "jobset completed successfully"
        return {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": message}
    return None
