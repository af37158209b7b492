"""Decides the states of a Workload's provisioning checks. Pure functions.

Also decides which ProvisioningRequests and PodTemplates are created and deleted.
"""

from collections.abc import Mapping

import msgspec

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import from_ns
from pykueue.controllers.provisioning import requests
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.controller.writes import Action, Create, Delete, Event, Update, changes

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
DEFAULT_RETRIES = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}


class ProvisioningContext(msgspec.Struct, frozen=True, kw_only=True):
    workload: Object
    configs: Mapping[str, Object | None] = msgspec.field(default_factory=dict)
    """The ProvisioningRequestConfig of each provisioning check; None if it is missing."""
    requests: tuple[Object, ...] = ()
    """The ProvisioningRequests that the Workload owns."""
    templates: Mapping[str, Object] = msgspec.field(default_factory=dict)
    flavors: Mapping[str, Object] = msgspec.field(default_factory=dict)
    now_ns: int = 0
    deletes_on_eviction: bool = True
    """Whether eviction deletes the requests (CleanupProvisioningRequestsOnEviction)."""


def actions(context: ProvisioningContext) -> list[Action]:
    workload = context.workload
    is_evicted = predicates.is_evicted(workload)
    if predicates.is_finished(workload) or (is_evicted and context.deletes_on_eviction):
        return [Delete(resource=resources.PROVISIONING_REQUEST, object=request) for request in context.requests]
    if is_evicted or not predicates.has_quota_reservation(workload):
        return []
    current = {name: _latest(context, name, config) for name, config in context.configs.items()}
    new = copied(workload)
    messages = [text for name in sorted(context.configs) if (text := _sync(context, new, name, current[name]))]
    writes = changes(resources.WORKLOAD, workload, new)
    writes += [Event(about=workload, reason="AdmissionCheckUpdated", message=text) for text in messages]
    current_names = {request["metadata"]["name"] for request in current.values() if request is not None}
    writes += [
        Delete(resource=resources.PROVISIONING_REQUEST, object=request)
        for request in context.requests
        if request["metadata"]["name"] not in current_names
    ]
    for name in sorted(context.configs):
        config = context.configs[name]
        if config is not None:
            writes += _create_if_due(context, new, name, current[name])
            writes += _own_templates(context, current[name])
    return writes


def _latest(context: ProvisioningContext, check: str, config: Object | None) -> Object | None:
    if config is None or not requests.pod_sets_to_provision(context.workload, config):
        return None
    fitting = [
        request
        for request in context.requests
        if requests.attempt_of(request, context.workload, check) and requests.matches_config(request, config)
    ]
    return max(fitting, key=lambda request: requests.attempt_of(request, context.workload, check), default=None)


def _check(workload: Object, name: str) -> Object:
    return next(check for check in predicates.checks(workload) if check["name"] == name)


def _sync(context: ProvisioningContext, workload: Object, name: str, request: Object | None) -> str:
    """Updates the check in place; returns the event message, or "" if the state is the same."""
    check, config = _check(workload, name), context.configs[name]
    before = copied(check)
    if config is None:
        check.update(state="Pending", message="the check is not active")
    elif not requests.pod_sets_to_provision(workload, config):
        if check["state"] != "Ready":
            check.update(state="Ready", message="the provisioning request is not needed")
            check.pop("podSetUpdates", None)
    elif request is not None:
        _sync_with_request(context, check, request, config)
    if check["state"] == before["state"]:
        return ""
    check["lastTransitionTime"] = from_ns(context.now_ns)
    suffix = f" with message: {check['message']}" if check.get("message") else ""
    return f"Admission check {name} updated state from {before['state']} to {check['state']}{suffix}"


def _sync_with_request(context: ProvisioningContext, check: Object, request: Object, config: Object) -> None:
    workload = context.workload
    if conditions.is_true(request, "Failed"):
        _retry(context, check, request, config, "Failed", "failure")
    elif conditions.is_true(request, "CapacityRevoked"):
        if predicates.is_active(workload):
            check.update(state="Rejected", message=_message(request, "CapacityRevoked"))
    elif conditions.is_true(request, "BookingExpired"):
        if not predicates.is_admitted(workload):
            _retry(context, check, request, config, "BookingExpired", "booking expired")
    elif conditions.is_true(request, "Provisioned"):
        if check["state"] != "Ready":
            updates = requests.updates(workload, request, config)
            check.update(state="Ready", message=_message(request, "Provisioned"), podSetUpdates=updates)
    elif conditions.is_true(request, "Accepted"):
        if conditions.find(request, "Provisioned") is not None:
            check.update(state="Pending", message=_message(request, "Provisioned"))
    else:
        check.update(state="Pending", message="")


def _message(request: Object, condition_type: str) -> str:
    return str((conditions.find(request, condition_type) or {}).get("message", ""))


def _retry(context: ProvisioningContext, check: Object, request: Object, config: Object, *words: str) -> None:
    condition_type, cause = words
    retries = {**DEFAULT_RETRIES, **(config["spec"].get("retryStrategy") or {})}
    attempt = requests.attempt_of(request, context.workload, check["name"])
    if attempt > retries["backoffLimitCount"]:
        check.update(state="Rejected", message=_message(request, condition_type))
        return
    check["message"] = f"Retrying after {cause}: {_message(request, condition_type)}"
    if attempt > check.get("retryCount", 0):
        check["state"] = "Retry"
        check["requeueAfterSeconds"] = transitions.backoff_seconds(
            check.get("retryCount", 0) + 1,
            base_seconds=retries["backoffBaseSeconds"],
            max_seconds=retries["backoffMaxSeconds"],
        )


def _create_if_due(context: ProvisioningContext, workload: Object, name: str, request: Object | None) -> list[Action]:
    check, config = _check(workload, name), context.configs[name]
    assert config is not None
    pod_sets = requests.pod_sets_to_provision(workload, config)
    if not pod_sets or check["state"] == "Ready":
        return []
    attempt = check.get("retryCount", 0) + 1
    if request is not None:
        expired = conditions.is_true(request, "BookingExpired") and not predicates.is_admitted(workload)
        is_over = conditions.is_true(request, "Failed") or expired
        if not is_over or check["state"] != "Pending":
            return []
        attempt = requests.attempt_of(request, workload, name) + 1
    new_request = requests.request(workload, config, requests.request_name(workload, name, attempt), pod_sets)
    request_name = new_request["metadata"]["name"]
    templates = [requests.pod_template(workload, request_name, pod_set, context.flavors) for pod_set in pod_sets]
    return [
        *(
            Create(resource=resources.POD_TEMPLATE, object=template)
            for template in templates
            if template["metadata"]["name"] not in context.templates
        ),
        Create(resource=resources.PROVISIONING_REQUEST, object=new_request),
        Event(
            about=workload,
            reason="ProvisioningRequestCreated",
            message=f'Created ProvisioningRequest: "{request_name}"',
        ),
    ]


def _own_templates(context: ProvisioningContext, request: Object | None) -> list[Action]:
    """Makes the request the owner of its PodTemplates, which are created before the request."""
    writes: list[Action] = []
    for pod_set in (request or {"spec": {"podSets": []}})["spec"]["podSets"]:
        old = context.templates.get(pod_set["podTemplateRef"]["name"])
        owner = objects.controller_of(old) if old is not None else None
        if old is None or request is None or (owner and owner["uid"] == request["metadata"]["uid"]):
            continue
        metadata = {**old["metadata"], "ownerReferences": [requests.owner(request)]}
        writes.append(Update(resource=resources.POD_TEMPLATE, old=old, new={**old, "metadata": metadata}))
    return writes
