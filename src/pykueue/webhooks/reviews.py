"""One AdmissionReview, answered: what a write becomes, or why it is refused. Pure; `endpoints` serves it.

The API server has decoded, defaulted and pruned the object already, and puts the name of the webhook before our words.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from pykueue.api import errors, json_copy
from pykueue.api.errors import ApiError
from pykueue.api.rules import table
from pykueue.api.scheme import Lookup, Object, Request, Settings
from pykueue.install import version_aliases
from pykueue.webhooks import json_difference

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    lookup: Lookup
    settings: Settings

    def mutate(self, asked: Object) -> Object:
        """The response to a review's request: the patch that our defaults make."""
        obj, old = _subject(asked), asked.get("oldObject")
        try:
            warnings = [
                *version_aliases.respell(obj, old, str(asked["kind"]["version"])),
                *self._rules(asked).defaulter(self._request(asked, obj, old)),
            ]
        except ApiError as error:
            return _refused(asked, error)
        patch = list(json_difference.operations(asked["object"], obj))
        return _allowed(asked, warnings) | (_patch(patch) if patch else {})

    def validate(self, asked: Object) -> Object:
        obj = _subject(asked)
        verdict = self._rules(asked).validator(self._request(asked, obj, asked.get("oldObject")))
        kind = asked["kind"]
        if verdict.invalid:
            name = str(obj["metadata"].get("name", ""))
            return _refused(asked, errors.invalid(kind["group"], kind["kind"], name, verdict.invalid), verdict.warnings)
        if verdict.denied:
            return _refused(asked, errors.denied(verdict.webhook, verdict.denied), verdict.warnings)
        return _allowed(asked, verdict.warnings)

    def _rules(self, asked: Object) -> table.Rules:
        return table.webhook_of(str(asked["kind"]["group"]), str(asked["kind"]["kind"]))

    def _request(self, asked: Object, obj: Object, old: Object | None) -> Request:
        return Request(
            operation=str(asked["operation"]),
            object=obj,
            old=old,
            subresource=str(asked.get("subResource") or ""),
            lookup=self.lookup,
            settings=self.settings,
        )


def _subject(asked: Object) -> Object:
    """A copy to change."""
    obj: Object = json_copy.copied(asked["object"])
    return obj


def _allowed(asked: Object, warnings: Iterable[str]) -> Object:
    return {"uid": asked["uid"], "allowed": True, **_told(warnings)}


def _refused(asked: Object, error: ApiError, warnings: Iterable[str] = ()) -> Object:
    status = error.status()
    if isinstance(error, errors.WebhookError):
        status["message"] = error.why
    return {"uid": asked["uid"], "allowed": False, "status": status, **_told(warnings)}


def _told(warnings: Iterable[str]) -> Object:
    listed = list(dict.fromkeys(warnings))
    return {"warnings": listed} if listed else {}


def _patch(operations: list[Object]) -> Object:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}
