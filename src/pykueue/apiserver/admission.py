"""The rules of a kind, applied to one write: field validation, defaults, schema, webhook rules.

Order as in Kubernetes: strict decoding, then mutating admission, then defaults and validation by the schema, then
validating admission. Schemas are those of the version asked for; the webhook rules see the storage version.
"""

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from pykueue.api import errors, fast_validation, schema, schema_validation
from pykueue.api.errors import ApiError, FieldError
from pykueue.api.scheme import Kind, Lookup, Object, Request, Settings
from pykueue.apiserver.calls import WriteCall

_SIMILAR_ENOUGH_TO_SUGGEST = 0.8


@dataclass(slots=True, kw_only=True)
class Admission:
    """What admission may ask, and what it has to say about one write."""

    lookup: Lookup
    settings: Settings
    warnings: list[str] = field(default_factory=list)
    is_patch: bool = False
    subresource: str = ""
    _was_sound: bool = False
    """As it was sent: then it had no nulls that must go."""

    def read(self, kind: Kind, obj: Object, old: Object | None, call: WriteCall) -> None:
        """Put lenient spellings right; unknown and repeated fields are refused when Strict, told when Warn, and dropped."""
        if kind.reader is not None:
            self.warnings += kind.reader(obj)
        settled = self._settled(kind, obj, old)
        self._was_sound = fast_validation.is_sound(kind.schema, obj, settled)
        unknown = [] if self._was_sound else schema.unknown_fields(kind.schema, obj, settled)
        as_sent = b""
        if unknown:
            as_sent = msgspec.json.encode(obj)
            schema.prune(kind.schema, obj, settled)
        if call.field_validation == "Ignore":
            return
        if call.field_validation == "Strict":
            faults = ", ".join([*call.decoding_faults, *map(str, unknown)])
            if faults:
                raise self._undecodable(kind, as_sent, f"strict decoding error: {faults}")
        self.warnings += [*call.decoding_faults, *map(_told, unknown)]

    def _settled(self, kind: Kind, obj: Object, old: Object | None) -> frozenset[str]:
        """Fields at the top that are as stored, where looking at them again would find nothing.

        Schemas of custom resources may have changed since, so a write of the whole object looks at all of it.
        """
        if old is None or (self.subresource != "status" and not kind.is_builtin):
            return frozenset()
        return frozenset(name for name, value in obj.items() if name in old and old[name] == value)

    def _undecodable(self, kind: Kind, as_sent: bytes, why: str) -> ApiError:
        if self.is_patch:
            fault = FieldError("FieldValueInvalid", "patch", why, as_sent.decode())
            return errors.invalid("", "", "", [fault])
        return errors.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')

    def check_configuration(self, kind: Kind, applied: Object) -> None:
        """Server-side apply takes no field that it does not know, because nobody could own it.

        Kubernetes says so with code 500; the fault is the client's, so it is a 400 here.
        """
        if kind.reader is not None:
            self.warnings += kind.reader(applied)
        unknown = [
            f".{field.path}: field not declared in schema" for field in schema.unknown_fields(kind.schema, applied)
        ]
        if unknown:
            place = f"{applied['metadata'].get('namespace', '')}/{applied['metadata'].get('name', '')}"
            faults = unknown[0] if len(unknown) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in unknown)
            raise errors.bad_request(
                f"failed to create typed patch object ({place}; {kind.api_version}, Kind={kind.kind}): {faults}"
            )

    def request(self, obj: Object, old: Object | None, subresource: str) -> Request:
        return Request(
            operation="UPDATE" if old is not None else "CREATE",
            object=obj,
            old=old,
            subresource=subresource,
            lookup=self.lookup,
            settings=self.settings,
        )

    def mutate(self, kind: Kind, request: Request) -> None:
        if kind.defaulter is not None:
            self.warnings += kind.defaulter(request)

    def check_structure(self, kind: Kind, obj: Object, old: Object | None, faults: Iterable[FieldError] = ()) -> None:
        """Default and validate by the schema; ApiError 422 for its faults and those found on the way."""
        settled = self._settled(kind, obj, old)
        if self._was_sound:
            schema.fill_in_defaults(kind.schema, obj, settled)
        is_sound = self._was_sound and fast_validation.is_sound(kind.schema, obj, settled)
        if not is_sound:
            schema.apply_defaults(kind.schema, obj, settled)
        found = [*faults, *schema_validation.validate(kind.schema, obj, old, is_sound=is_sound)]
        if found:
            told = [_seen_from_status(fault) for fault in found]
            raise errors.invalid(kind.group, kind.kind, str(obj["metadata"].get("name", "")), told)

    def validate(self, kind: Kind, request: Request) -> None:
        if kind.validator is None:
            return
        verdict = kind.validator(request)
        self.warnings += verdict.warnings
        if verdict.invalid:
            name = str(request.object["metadata"].get("name", ""))
            raise errors.invalid(kind.group, kind.kind, name, verdict.invalid)
        if verdict.denied:
            raise errors.denied(verdict.webhook, verdict.denied)


def _seen_from_status(fault: FieldError) -> FieldError:
    """A status is written by itself, and its faults are told from there; only the field is named from the top."""
    if not fault.field.startswith("status."):
        return fault
    from_top, from_status = f"{fault.field} in body", f"{fault.field.removeprefix('status.')} in body"
    return dataclasses.replace(fault, detail=fault.detail.replace(from_top, from_status, 1))


def _told(unknown: schema.UnknownField) -> str:
    """Kubernetes' words; a slip of the pen is told what it could have meant."""
    likeness = difflib.SequenceMatcher(None, unknown.name.lower(), unknown.suggestion.lower()).ratio()
    return unknown.hint() if likeness >= _SIMILAR_ENOUGH_TO_SUGGEST else str(unknown)
