"""Constructors of field errors, with the words of k8s.io/apimachinery. Used by every rule."""

import json
from collections.abc import Iterable
from typing import Any

from pykueue.api.errors import OMIT_VALUE, FieldError

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, detail, value)


def invalid_without_value(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, detail, OMIT_VALUE)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, detail)


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueDuplicate", path, detail, value)


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, "", value)


def not_supported(path: str, value: Any, choices: Iterable[str]) -> FieldError:
    supported = ", ".join(json.dumps(choice) for choice in choices)
    return FieldError("FieldValueNotSupported", path, f"supported values: {supported}" if supported else "", value)


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, f"may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", path, f"must have at most {limit} items", count)


def changed(path: str, new: Any, old: Any) -> list[FieldError]:
    """The error of an immutable field, if it has changed."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]
