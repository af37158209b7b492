"""The rules of a kind, applied to one write: field validation, defaults, schema, webhook rules.

Order as in Kubernetes: strict decoding, then mutating admission, then defaults, pruning and validation by the schema,
then validating admission. Schemas are those of the version asked for; the webhook rules see the storage version.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pykueue.api import errors
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Kind, Lookup, Object, Request, Settings
from pykueue.apiserver import structure
from pykueue.apiserver.calls import WriteCall


@dataclass(slots=True, kw_only=True)
class Admission:
    """What admission may ask, and what it has to say about one write."""

    lookup: Lookup
    settings: Settings
    warnings: list[str] = field(default_factory=list)

    def check_fields(self, kind: Kind, obj: Object, call: WriteCall) -> None:
        """Unknown and repeated fields: refused when Strict, told when Warn. They are dropped later in any case."""
        if kind.reader is not None:
            self.warnings += kind.reader(obj)
        if call.field_validation == "Ignore":
            return
        faults = [*call.decoding_faults, *structure.unknown_metadata_fields(obj)]
        if not faults:
            return
        if call.field_validation == "Strict":
            described = ", ".join(faults)
            raise errors.bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {described}"
            )
        self.warnings += faults

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

    def check_structure(self, kind: Kind, obj: Object, faults: Iterable[FieldError]) -> None:
        """Default, prune and validate by the schema; ApiError 422 for its faults and those found on the way."""
        found = list(faults)
        if found:
            raise errors.invalid(kind.group, kind.kind, str(obj["metadata"].get("name", "")), found)

    def validate(self, kind: Kind, request: Request) -> None:
        if kind.validator is None:
            return
        verdict = kind.validator(request)
        self.warnings += verdict.warnings
        if verdict.invalid:
            name = str(request.object["metadata"].get("name", ""))
            raise errors.invalid(kind.group, kind.kind, name, verdict.invalid)
        if verdict.denied:
            raise denied(kind, verdict.denied)


def denied(kind: Kind, faults: tuple[FieldError, ...]) -> errors.ApiError:
    described = errors.aggregate(faults)
    message = f'admission webhook "v{kind.kind.lower()}.kb.io" denied the request: {described}'
    return errors.ApiError(403, "Forbidden", message)
