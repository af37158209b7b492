"""What to do about the provisioning checks of one Workload: states that follow from the requests, requests that are due."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.scheme import Object
from pykueue.api.times import from_ns
from pykueue.controllers.provisioning import requests
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.controller.plan import Action, Create, Delete, Event, Write, changes

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
DEFAULT_RETRIES = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningContext:
    workload: Object
    configs: Mapping[str, Object | None] = field(default_factory=dict)
    """Of the Workload's checks that are ours; None when its configuration is missing."""
    requests: tuple[Object, ...] = ()
    """ProvisioningRequests that the Workload owns."""
    templates: Mapping[str, Object] = field(default_factory=dict)
    flavors: Mapping[str, Object] = field(default_factory=dict)
    now_ns: int = 0


def actions(case: ProvisioningContext) -> list[Action]:
    workload = case.workload
    ended = predicates.is_finished(workload) or predicates.is_evicted(workload)
    if ended:
        return [Delete(resource=resources.PROVISIONING_REQUEST, object=request) for request in case.requests]
    if not predicates.has_quota_reservation(workload):
        return []
    current = {name: _latest(case, name, config) for name, config in case.configs.items()}
    new = copied(workload)
    told = [text for name in sorted(case.configs) if (text := _sync(case, new, name, current[name]))]
    found = changes(resources.WORKLOAD, workload, new)
    found += [Event(about=workload, reason="AdmissionCheckUpdated", message=text) for text in told]
    kept = {request["metadata"]["name"] for request in current.values() if request is not None}
    found += [
        Delete(resource=resources.PROVISIONING_REQUEST, object=request)
        for request in case.requests
        if request["metadata"]["name"] not in kept
    ]
    for name in sorted(case.configs):
        config = case.configs[name]
        if config is not None:
            found += _create_if_due(case, new, name, current[name])
            found += _hand_over_templates(case, current[name])
    return found


def _latest(case: ProvisioningContext, check: str, config: Object | None) -> Object | None:
    if config is None or not requests.pod_sets_to_provision(case.workload, config):
        return None
    fitting = [
        request
        for request in case.requests
        if requests.attempt_of(request, case.workload, check) and requests.follows(request, config)
    ]
    return max(fitting, key=lambda request: requests.attempt_of(request, case.workload, check), default=None)


def _check(workload: Object, name: str) -> Object:
    return next(check for check in predicates.checks(workload) if check["name"] == name)


def _sync(case: ProvisioningContext, workload: Object, name: str, request: Object | None) -> str:
    """Edits the check; the text of the event if its state changed."""
    check, config = _check(workload, name), case.configs[name]
    before = copied(check)
    if config is None:
        check.update(state="Pending", message="the check is not active")
    elif not requests.pod_sets_to_provision(workload, config):
        if check["state"] != "Ready":
            check.update(state="Ready", message="the provisioning request is not needed")
            check.pop("podSetUpdates", None)
    elif request is not None:
        _follow(case, check, request, config)
    if check["state"] == before["state"]:
        return ""
    check["lastTransitionTime"] = from_ns(case.now_ns)
    suffix = f" with message: {check['message']}" if check.get("message") else ""
    return f"Admission check {name} updated state from {before['state']} to {check['state']}{suffix}"


def _follow(case: ProvisioningContext, check: Object, request: Object, config: Object) -> None:
    workload = case.workload
    if conditions.is_true(request, "Failed"):
        _retry(case, check, request, config, "Failed", "failure")
    elif conditions.is_true(request, "CapacityRevoked"):
        if predicates.is_active(workload):
            check.update(state="Rejected", message=_message(request, "CapacityRevoked"))
    elif conditions.is_true(request, "BookingExpired"):
        if not predicates.is_admitted(workload):
            _retry(case, check, request, config, "BookingExpired", "booking expired")
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


def _retry(case: ProvisioningContext, check: Object, request: Object, config: Object, *words: str) -> None:
    condition_type, cause = words
    retries = {**DEFAULT_RETRIES, **(config["spec"].get("retryStrategy") or {})}
    attempt = requests.attempt_of(request, case.workload, check["name"])
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


def _create_if_due(case: ProvisioningContext, workload: Object, name: str, request: Object | None) -> list[Action]:
    check, config = _check(workload, name), case.configs[name]
    assert config is not None
    wanted = requests.pod_sets_to_provision(workload, config)
    if not wanted or check["state"] == "Ready":
        return []
    attempt = check.get("retryCount", 0) + 1
    if request is not None:
        expired = conditions.is_true(request, "BookingExpired") and not predicates.is_admitted(workload)
        is_over = conditions.is_true(request, "Failed") or expired
        if not is_over or check["state"] != "Pending":
            return []
        attempt = requests.attempt_of(request, workload, name) + 1
    made = requests.request(workload, config, requests.request_name(workload, name, attempt), wanted)
    made_name = made["metadata"]["name"]
    templates = [requests.pod_template(workload, made_name, demand, case.flavors) for demand in wanted]
    return [
        *(
            Create(resource=resources.POD_TEMPLATE, object=template)
            for template in templates
            if template["metadata"]["name"] not in case.templates
        ),
        Create(resource=resources.PROVISIONING_REQUEST, object=made),
        Event(
            about=workload,
            reason="ProvisioningRequestCreated",
            message=f'Created ProvisioningRequest: "{made_name}"',
        ),
    ]


def _hand_over_templates(case: ProvisioningContext, request: Object | None) -> list[Action]:
    """Templates were made before their request; once it is there they go with it."""
    found: list[Action] = []
    for pod_set in (request or {"spec": {"podSets": []}})["spec"]["podSets"]:
        old = case.templates.get(pod_set["podTemplateRef"]["name"])
        owner = predicates.controller_of(old) if old is not None else None
        if old is None or request is None or (owner and owner["uid"] == request["metadata"]["uid"]):
            continue
        metadata = {**old["metadata"], "ownerReferences": [requests.owner(request)]}
        found.append(Write(resource=resources.POD_TEMPLATE, old=old, new={**old, "metadata": metadata}))
    return found
