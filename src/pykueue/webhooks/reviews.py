"""Answers one AdmissionReview: the patch that sets defaults, or the reason of a refusal. Pure.

`endpoints` serves it. The API server has decoded, defaulted and pruned the object, so that only
the steps `mutate` and `validate` of `api.admission` are left. It puts the name of the webhook
before our message.
"""

import base64
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pykueue.api import errors, json_copy
from pykueue.api.admission import AdmissionPipeline
from pykueue.api.errors import ApiError
from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest, Kind, Lookup, Object, Settings
from pykueue.install import version_aliases

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    lookup: Lookup
    settings: Settings

    def mutate(self, review_request: Object) -> Object:
        """The response to the `request` of a review: the patch that sets our defaults."""
        admission, request = self._admission(review_request)
        version = str(review_request["kind"]["version"])
        try:
            admission.warnings += version_aliases.apply(request.object, request.old, version)
            admission.mutate(_kind(review_request), request)
        except ApiError as error:
            return _refused(review_request, error, [])
        patch = list(json_patch(review_request["object"], request.object))
        return _allowed(review_request, admission.warnings) | (_encoded(patch) if patch else {})

    def validate(self, review_request: Object) -> Object:
        admission, request = self._admission(review_request)
        try:
            admission.validate(_kind(review_request), request)
        except ApiError as error:
            return _refused(review_request, error, admission.warnings)
        return _allowed(review_request, admission.warnings)

    def _admission(self, review_request: Object) -> tuple[AdmissionPipeline, AdmissionRequest]:
        subresource = str(review_request.get("subResource") or "")
        admission = AdmissionPipeline(lookup=self.lookup, settings=self.settings, subresource=subresource)
        obj: Object = json_copy.copied(review_request["object"])
        return admission, admission.request(obj, review_request.get("oldObject"), str(review_request["operation"]))


def _kind(review_request: Object) -> Kind:
    kind = review_request["kind"]
    return _kind_with_webhook_rules(str(kind["group"]), str(kind["version"]), str(kind["kind"]))


@functools.lru_cache(maxsize=256)
def _kind_with_webhook_rules(group: str, version: str, kind: str) -> Kind:
    rules = table.webhook_of(group, kind)
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural="",
        namespaced=True,
        defaulter=rules.defaulter,
        validator=rules.validator,
    )


def _allowed(review_request: Object, warnings: list[str]) -> Object:
    return {"uid": review_request["uid"], "allowed": True, **_warnings(warnings)}


def _refused(review_request: Object, error: ApiError, warnings: list[str]) -> Object:
    status = error.status()
    if isinstance(error, errors.WebhookError):
        status["message"] = error.why
    return {"uid": review_request["uid"], "allowed": False, "status": status, **_warnings(warnings)}


def _warnings(warnings: list[str]) -> Object:
    return {"warnings": list(dict.fromkeys(warnings))} if warnings else {}


def _encoded(patch: list[Object]) -> Object:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[Object]:
    """The JSON Patch (RFC 6902) between two values; a list that differs is replaced whole."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        if _encode(before) != _encode(after):
            yield {"op": "replace", "path": path, "value": after}
        return
    for name in before.keys() - after.keys():
        yield {"op": "remove", "path": _below(path, name)}
    for name, value in after.items():
        if name in before:
            yield from json_patch(before[name], value, _below(path, name))
        else:
            yield {"op": "add", "path": _below(path, name), "value": value}


def _encode(value: Any) -> bytes:
    """To compare values as JSON: in Python `[True] == [1]`."""
    return msgspec.json.encode(value, order="deterministic")


def _below(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
