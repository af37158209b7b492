"""AdmissionReviews: what a webhook is asked, and what its answer means."""

import base64
import binascii
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pykueue.api import errors, json_text
from pykueue.api.errors import ApiError
from pykueue.api.policy_expressions import MatchConditions
from pykueue.api.rules import reading
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.plugins.admission_attributes import Attributes
from pykueue.apiserver.plugins.admission_rules import Matcher
from pykueue.apiserver.review_session import ReviewAnswer

_GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")


class AnswerError(Exception):
    """The answer of a webhook breaks the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One entry of a webhook configuration."""

    configuration: str
    index: int
    spec: Object
    matcher: Matcher
    conditions: MatchConditions
    is_mutating: bool

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))

    @property
    def key(self) -> str:
        return f"{self.is_mutating} {self.configuration} {self.index} {self.name}"

    @property
    def fails_open(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def timeout_seconds(self) -> int:
        return int(self.spec.get("timeoutSeconds") or 10)

    @property
    def review_version(self) -> str:
        return next(
            (version for version in self.spec.get("admissionReviewVersions") or () if version in _VERSIONS), "v1"
        )

    def check_dry_run(self, attributes: Attributes) -> None:
        if attributes.dry_run and self.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise errors.bad_request(f'admission webhook "{self.name}" does not support dry run')


def request_of(attributes: Attributes, kind: Kind) -> Object:
    obj, old = attributes.in_version(kind)
    return {**attributes.request(kind), "object": obj, "oldObject": old}


def review_of(webhook: Webhook, request: Object, uid: str) -> Object:
    api_version = f"{_GROUP}/{webhook.review_version}"
    return {"kind": "AdmissionReview", "apiVersion": api_version, "request": {"uid": uid, **request}}


def checked_response(webhook: Webhook, review: Any, uid: str) -> Object:
    """The `response` of an answered review; AnswerError in the words of Kubernetes."""
    response = reading.at(review, "response")
    if not isinstance(response, dict):
        raise AnswerError("webhook response was absent")
    has_patch, has_type = bool(response.get("patch")), response.get("patchType") is not None
    if webhook.review_version == "v1":
        if response.get("uid") != uid:
            raise AnswerError(f'expected response.uid="{uid}", got "{str(response.get("uid", ""))[:64]}"')
        identity = (review.get("apiVersion"), review.get("kind"))
        if identity != (f"{_GROUP}/v1", "AdmissionReview"):
            raise AnswerError(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview")
        if webhook.is_mutating and has_patch != has_type:
            one, other = ("patch", "patchType") if has_patch else ("patchType", "patch")
            raise AnswerError(f"webhook returned response.{one} but not response.{other}")
    if not webhook.is_mutating and (has_patch or has_type):
        raise AnswerError(f"validating webhook may not return response.{'patch' if has_patch else 'patchType'}")
    if has_patch:
        if has_type and response["patchType"] != "JSONPatch":
            raise AnswerError(f'unsupported patch type "{str(response["patchType"])[:64]}"')
        operations_of(response)
    return response


def operations_of(response: Object) -> list[Any]:
    """The operations of the JSON patch in an answer."""
    try:
        data = base64.b64decode(str(response.get("patch") or ""), validate=True)
        operations = json_text.decode(data)
    except (binascii.Error, ValueError) as error:
        raise AnswerError(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(operations, list):
        raise AnswerError("received undecodable patch in webhook response: it is not a list")
    return operations


def warnings_of(answer: ReviewAnswer) -> Sequence[str]:
    return reading.texts(answer.response.get("warnings"))


def refusal_of(webhook: Webhook, answer: ReviewAnswer) -> ApiError | None:
    """Why the write is refused: the webhook did not allow it, or did not answer."""
    if answer.failure:
        message = f'failed calling webhook "{webhook.name}": {answer.failure}'
        return ApiError(500, "InternalError", f"Internal error occurred: {message}")
    if answer.response.get("allowed") is True:
        return None
    status = reading.mapping(answer.response.get("status"))
    denied = f'admission webhook "{webhook.name}" denied the request'
    why = reading.text(status.get("message")) or reading.text(status.get("reason"))
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    code = 400
    with contextlib.suppress(TypeError, ValueError):
        code = min(max(int(status.get("code") or 0), 400), 599)
    details = status.get("details")
    return ApiError(code, reading.text(status.get("reason")), message, details if isinstance(details, dict) else None)
