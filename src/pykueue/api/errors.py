"""Errors of requests and objects, in the form that Kubernetes gives them.

    FieldError    one field of one object: type, path, value, detail (collected in lists)
    ApiError      a request was refused; has a Kubernetes Status
      bad_request 400 · unauthorized 401 · forbidden 403 · not_found 404 · already_exists 409
      conflict 409 · expired 410 · too_large 413 · unsupported_media_type 415 · invalid 422
      too_many_requests 429

import msgspec

The API server, every client and the readers of files raise ApiError; only the edges catch it.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

OMIT_VALUE = object()
"""Marks a FieldError whose message does not show the offending value."""

_WORDS = {
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = {
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueTooLong",
    "InternalError",
}


class FieldError(msgspec.Struct, frozen=True):
    """The error of one field.

    `str()` is the text of k8s.io/apimachinery: `path: Invalid value: "x": detail`.
    """

    reason: str
    field: str
    detail: str = ""
    value: Any = OMIT_VALUE

    def body(self) -> str:
        words = _WORDS[self.reason]
        if self.reason in _WITHOUT_VALUE or self.value is OMIT_VALUE:
            return f"{words}: {self.detail}" if self.detail else words
        value = self.value if isinstance(self.value, Verbatim) else json.dumps(self.value, separators=(",", ":"))
        return f"{words}: {value}: {self.detail}" if self.detail else f"{words}: {value}"

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"

    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.body(), "field": self.field}


class Verbatim(str):
    """A value that is printed as it is, for types that Go prints in a special way."""

    __slots__ = ()


def aggregate(errors: Sequence[FieldError]) -> str:
    """The text of several errors, as `ErrorList.ToAggregate` prints it.

    Repeated texts are dropped; two or more are put in brackets.
    """
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


class ApiError(Exception):
    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.warnings: tuple[str, ...] = ()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status

    @classmethod
    def from_status(cls, status: dict[str, Any], code: int = 500) -> "ApiError":
        return cls(
            int(status.get("code") or code),
            str(status.get("reason", "")),
            str(status.get("message", "")),
            status.get("details"),
        )


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    subject = f'{qualified} "{name}" is forbidden' if name else f"{qualified} is forbidden"
    return ApiError(403, "Forbidden", f"{subject}: {why}", _details(group, plural, name))


def not_found(group: str, plural: str, name: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    return ApiError(404, "NotFound", f'{qualified} "{name}" not found', _details(group, plural, name))


def already_exists(group: str, plural: str, name: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    return ApiError(409, "AlreadyExists", f'{qualified} "{name}" already exists', _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    qualified = f"{plural}.{group}" if group else plural
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(group, plural, name))


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    qualified = f"{kind}.{group}" if group else kind
    named = {"name": name, "kind": kind}
    details: dict[str, Any] = {word: value for word, value in named.items() if value}
    details["causes"] = [error.cause() for error in errors]
    if group:
        details["group"] = group
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {aggregate(errors)}', details)


class WebhookError(ApiError):
    """`why` is the message of the webhook; the API server puts the webhook's name before it."""

    def __init__(self, code: int, reason: str, webhook: str, why: str) -> None:
        super().__init__(code, reason, f'admission webhook "{webhook}" denied the request: {why}')
        self.why = why


def denied(webhook: str, errors: Sequence[FieldError]) -> WebhookError:
    """The refusal of a validating webhook: 403 without causes."""
    return WebhookError(403, "Forbidden", webhook, aggregate(errors))


def undecodable(webhook: str, why: str) -> WebhookError:
    """The refusal of a mutating webhook that cannot decode the object: 400 without a reason."""
    return WebhookError(400, "", webhook, why)


def too_many_requests(message: str, retry_after_seconds: int) -> ApiError:
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after_seconds})


def _details(group: str, plural: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"kind": plural}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    return details
