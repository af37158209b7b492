"""Kubernetes' library of named formats: `format.dns1123Label().validate(name)`."""

import base64
import binascii
from collections.abc import Callable, Sequence

from pykueue.api import text_formats
from pykueue.api.cel import network, types
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import NONE, Opaque, Optional
from pykueue.api.rules import syntax

Validate = Callable[[str], Sequence[str]]
_FORMAT = "kubernetes.NamedFormat"


class NamedFormat(Opaque):
    """`pattern_cost` is that of the regular expression that Kubernetes assumes."""

    __slots__ = ("name", "pattern_cost", "validate")
    cel_type = types.Type("struct", _FORMAT)

    def __init__(self, name: str, validate: Validate, pattern_cost: int) -> None:
        self.name = name
        self.validate = validate
        self.pattern_cost = pattern_cost

    def cel_equal(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name


def _of_prefix(validate: Validate) -> Validate:
    """For `generateName`: a dash at the end is followed by more."""
    return lambda text: validate(f"{text[:-1]}a" if text.endswith("-") and len(text) > 1 else text)


def _conforms(name: str, message: str) -> Validate:
    return lambda text: () if text_formats.conforms(name, text) else (message,)


def _uri(text: str) -> Sequence[str]:
    try:
        network.parse_url(text)
    except CelError as error:
        return (str(error),)
    return ()


def _byte(text: str) -> Sequence[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ("invalid base64",)
    return ()


_FORMATS: dict[str, NamedFormat] = {
    name: NamedFormat(name, validate, pattern_cost)
    for name, validate, pattern_cost in (
        ("dns1123Label", syntax.dns_label, 8),
        ("dns1123Subdomain", syntax.dns_subdomain, 15),
        ("dns1035Label", syntax.dns_1035_label, 8),
        ("qualifiedName", syntax.label_key, 15),
        ("dns1123LabelPrefix", _of_prefix(syntax.dns_label), 8),
        ("dns1123SubdomainPrefix", _of_prefix(syntax.dns_subdomain), 15),
        ("dns1035LabelPrefix", _of_prefix(syntax.dns_1035_label), 8),
        ("labelValue", syntax.label_value, 10),
        ("uri", _uri, 276),
        ("uuid", _conforms("uuid", "does not match the UUID format"), 18),
        ("byte", _byte, 21),
        ("date", _conforms("date", "invalid date"), 18),
        ("datetime", _conforms("datetime", "invalid datetime"), 18),
    )
}


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validate(of: NamedFormat, text: str) -> Optional:
    messages = of.validate(text)
    return Optional(list(messages)) if messages else NONE


def _validate_cost(of: NamedFormat, text: str) -> int:
    return -(-(1 + len(text)) // 10) * of.pattern_cost


def add_formats(functions: Functions) -> None:
    functions.add("format.named", "format-named", f"(string) -> optional_type({_FORMAT})", _named)
    signature = f"{_FORMAT}.(string) -> optional_type(list(string))"
    functions.add("validate", "format-validate", signature, _validate, cost=_validate_cost)
    for name, of in _FORMATS.items():
        functions.add(f"format.{name}", f"format.{name}", f"() -> {_FORMAT}", lambda of=of: of)
