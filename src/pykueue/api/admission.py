"""The admission of one write: the steps that a kind's rules demand, in the order of Kubernetes.

    read        accept lenient spellings (`Kind.reader`); find and drop unknown fields
    convert     an older version: check its structure, then convert it to the storage version
    mutate      Kubernetes' defaults, then Kueue's mutating webhooks (`Kind.defaulter`)
    structure   defaults and validation by the schema, with its CEL rules
    validate    Kubernetes' own checks, then Kueue's validating webhooks (`Kind.validator`)

`AdmissionPipeline` refuses a write at its first faulty step, as an API server does. The embedded
API server runs all steps. The webhook server runs `mutate` and `validate`, because the cluster's
API server does the others. `pykueue validate` runs all steps of a creation, and collects the
faults instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from pykueue.api import errors, fast_validation, schema, schema_validation
from pykueue.api.errors import ApiError, FieldError
from pykueue.api.schema import UnknownField
from pykueue.api.scheme import AdmissionRequest, Kind, Lookup, Object, Settings

LARGEST_OBJECT_BYTES = 1_572_864
"""The largest object, as JSON, that an API server accepts: etcd's limit of 1.5 MiB."""

_DEFAULTED_SUBRESOURCES = ("", "ephemeralcontainers")
"""The writes that may bring new parts of a spec, whose defaults are to be set."""


@dataclass(slots=True, kw_only=True)
class AdmissionPipeline:
    """One write. `warnings` are for the client."""

    lookup: Lookup
    settings: Settings
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    _was_valid: bool = False
    """Whether the object was certainly valid as it was sent. Then it has no nulls to remove."""

    # Steps

    def admit(self, kind: Kind, storage_kind: Kind, obj: Object, old: Object | None) -> Object:
        """The object in its storage version, defaulted and valid.

        `kind` is the kind in the version of the request.
        """
        self.read(kind, obj, old if kind is storage_kind else None)
        if kind is not storage_kind:
            self.check_structure(kind, obj, self.in_version(kind, old) if old else None)
            if not self.may_convert:
                return obj
            obj = self.in_storage_version(kind, obj)
        request = self.request(obj, old)
        if not self.subresource:
            self.prepare(storage_kind, request)
        if self.subresource in _DEFAULTED_SUBRESOURCES:
            self.mutate(storage_kind, request)
        self.mutate_by_plugins(storage_kind, request)
        field_errors = self.check_metadata(storage_kind, request)
        if kind is storage_kind or self.checks_storage_schema:
            self.check_structure(storage_kind, obj, old, field_errors)
        self.validate(storage_kind, request)
        return obj

    def request(self, obj: Object, old: Object | None, operation: str = "") -> AdmissionRequest:
        return AdmissionRequest(
            operation=operation or ("CREATE" if old is None else "UPDATE"),
            object=obj,
            old=old,
            subresource=self.subresource,
            lookup=self.lookup,
            settings=self.settings,
        )

    def read(self, kind: Kind, obj: Object, old: Object | None) -> None:
        """Accept lenient spellings; report unknown fields and drop them."""
        if kind.reader is not None:
            self.warnings += kind.reader(obj)
        unchanged = self._unchanged_fields(kind, obj, old)
        self._was_valid = fast_validation.is_certainly_valid(kind.schema, obj, unchanged)
        unknown = [] if self._was_valid else schema.unknown_fields(kind.schema, obj, unchanged)
        as_sent = b""
        if unknown:
            as_sent = msgspec.json.encode(obj)
            schema.prune(kind.schema, obj, unchanged)
        self.on_unknown_fields(kind, unknown, as_sent)

    def mutate(self, kind: Kind, request: AdmissionRequest) -> None:
        if kind.defaulter is None:
            return
        try:
            kind.defaulter(request)
        except ApiError as error:
            if not self.on_refusal(error):
                raise

    def check_structure(
        self, kind: Kind, obj: Object, old: Object | None, field_errors: Iterable[FieldError] = ()
    ) -> None:
        """Default and validate by the schema.

        `field_errors` of earlier checks are reported together with those of the schema.
        """
        unchanged = self._unchanged_fields(kind, obj, old)
        may_differ = not self.subresource
        """Whether the object may have changed since it was certainly valid."""
        if self._was_valid:
            may_differ |= schema.fill_in_defaults(kind.schema, obj, unchanged)
            if self.is_trusted:
                if errors_so_far := list(field_errors):
                    self.on_invalid(kind, obj, errors_so_far)
                return
        is_valid = self._was_valid and (
            not may_differ or fast_validation.is_certainly_valid(kind.schema, obj, unchanged)
        )
        if not is_valid:
            schema.apply_defaults(kind.schema, obj, unchanged)
        schema_errors = schema_validation.validate(kind.schema, obj, old, has_valid_structure=is_valid)
        if all_errors := [*field_errors, *schema_errors]:
            self.on_invalid(kind, obj, all_errors)

    def validate(self, kind: Kind, request: AdmissionRequest) -> None:
        if kind.validator is None or (self.is_trusted and self._was_valid):
            return
        try:
            result = kind.validator(request)
        except ApiError as error:
            if not self.on_refusal(error):
                raise
            return
        self.warnings += result.warnings
        if result.invalid:
            self.on_invalid(kind, request.object, result.invalid)
        if result.denied:
            self.on_denied(result.webhook, result.denied)

    def _unchanged_fields(self, kind: Kind, obj: Object, old: Object | None) -> frozenset[str]:
        """The top-level fields that equal the stored ones, which need no second check.

        The schema of a custom resource may have changed since, so that a write of the whole object
        checks all fields.
        """
        if old is None or (self.subresource != "status" and not kind.is_builtin):
            return frozenset()
        return frozenset([name for name, value in obj.items() if name in old and old[name] == value])

    # What depends on the caller

    @property
    def is_trusted(self) -> bool:
        """Whether the writer keeps the rules: then only types, names and limits are checked."""
        return False

    @property
    def may_convert(self) -> bool:
        """Whether an object of an older version goes on after the check of its structure."""
        return True

    @property
    def checks_storage_schema(self) -> bool:
        """Whether a converted object is also checked by the schema of the storage version."""
        return True

    def in_version(self, kind: Kind, stored: Object) -> Object:
        return kind.from_storage(stored) if kind.from_storage else stored

    def in_storage_version(self, kind: Kind, obj: Object) -> Object:
        return kind.to_storage(obj) if kind.to_storage else obj

    def prepare(self, kind: Kind, request: AdmissionRequest) -> None:
        """What an API server sets before mutating admission."""

    def mutate_by_plugins(self, kind: Kind, request: AdmissionRequest) -> None:
        """What an API server's own plugins change, after the defaults."""

    def check_metadata(self, kind: Kind, request: AdmissionRequest) -> list[FieldError]:
        """Set what an API server sets in the metadata, and check the rest of it."""
        del kind, request
        return []

    # Faults

    def on_unknown_fields(self, kind: Kind, unknown: Sequence[UnknownField], as_sent: bytes) -> None:
        """`as_sent` is the object with its unknown fields, b"" if it has none."""

    def on_invalid(self, kind: Kind, obj: Object, field_errors: Sequence[FieldError]) -> None:
        raise errors.invalid(kind.group, kind.kind, str(obj["metadata"].get("name", "")), field_errors)

    def on_denied(self, webhook: str, field_errors: Sequence[FieldError]) -> None:
        raise errors.denied(webhook, field_errors)

    def on_refusal(self, error: ApiError) -> bool:
        """Whether the error is noted, and not raised."""
        del error
        return False
