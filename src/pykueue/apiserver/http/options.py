"""Query parameters and DeleteOptions to the options of `calls`; ApiError for invalid ones."""

from collections.abc import Mapping
from typing import Any

from pykueue.api import errors, integers
from pykueue.api.errors import FieldError
from pykueue.apiserver.calls import DeleteCall, ListCall, UserInfo, WatchCall
from pykueue.apiserver.http.routes import is_set

Query = Mapping[str, str]

_VALIDATIONS = ("Ignore", "Warn", "Strict")
_POLICIES = ("Orphan", "Background", "Foreground")
_LONGEST_MANAGER = 128


def list_call(query: Query) -> ListCall:
    return ListCall(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=number(query, "limit"),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
    )


def watch_call(query: Query) -> WatchCall:
    initial = query.get("sendInitialEvents")
    return WatchCall(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        allow_bookmarks=is_set(query, "allowWatchBookmarks"),
        send_initial_events=None if initial is None else is_set(query, "sendInitialEvents"),
        timeout_seconds=number(query, "timeoutSeconds"),
    )


def number(query: Query, name: str) -> int:
    text = query.get(name, "")
    return max(integers.signed(text, name), 0) if text else 0


def check_write(query: Query, options_kind: str) -> bool:
    """Whether this is a dry run; ApiError 422 for invalid write options."""
    faults = []
    validation = query.get("fieldValidation", "")
    if validation and validation not in _VALIDATIONS:
        faults.append(_unsupported("fieldValidation", validation, sorted(_VALIDATIONS)))
    if len(query.get("fieldManager", "")) > _LONGEST_MANAGER:
        faults.append(FieldError("FieldValueTooLong", "fieldManager", f"may not be more than {_LONGEST_MANAGER} bytes"))
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        faults.append(_unsupported("dryRun", [dry_run], ["All"]))
    if faults:
        raise errors.invalid("meta.k8s.io", options_kind, "", faults)
    return dry_run == "All"


def delete_call(query: Query, body: dict[str, Any], user: UserInfo) -> DeleteCall:
    """DeleteOptions from the body, and from the query where the body has no value."""
    policy = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    is_orphan = _boolean(body.get("orphanDependents"), query.get("orphanDependents"))
    if not policy and is_orphan is not None:
        policy = "Orphan" if is_orphan else "Background"
    if policy and policy not in _POLICIES:
        fault = _unsupported("propagationPolicy", policy, ["Foreground", "Background", "Orphan", "nil"])
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [fault])
    preconditions = body.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise errors.bad_request("preconditions must be an object")
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = number(query, "gracePeriodSeconds")
    if grace is not None and not (type(grace) is int and -(2**63) <= grace < 2**63):
        raise errors.bad_request("gracePeriodSeconds must be an integer of at most 64 bits")
    is_dry = check_write(query, "DeleteOptions") or body.get("dryRun") == ["All"]
    return DeleteCall(
        user=user,
        propagation_policy=policy,
        grace_period_seconds=grace,
        precondition_uid=str(preconditions.get("uid") or ""),
        precondition_resource_version=str(preconditions.get("resourceVersion") or ""),
        dry_run=is_dry,
    )


def _boolean(in_body: object, in_query: str | None) -> bool | None:
    if isinstance(in_body, bool):
        return in_body
    return None if in_query is None else in_query in ("1", "true")


def _unsupported(field: str, value: object, supported: list[str]) -> FieldError:
    values = ", ".join(f'"{name}"' for name in supported)
    return FieldError("FieldValueNotSupported", field, f"supported values: {values}", value)
