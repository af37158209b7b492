"""The registry of kinds: names, schema and rules of each kind.

Every part that treats all kinds alike (API server, clients, CRD printer, validation) uses the
Scheme instead of naming kinds. Modules of `api` fill it; a user's CustomResourceDefinition adds to
the server's own copy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from pykueue.api.errors import FieldError

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON. Fields that we do not use are passed on unchanged."""

Schema = dict[str, Any]
"""A structural OpenAPI v3 schema."""


class Resource(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """The group, version and plural of a kind, from which requests are built."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return (
            root
            + inside
            + f"/{self.plural}"
            + (f"/{name}" if name else "")
            + (f"/{subresource}" if subresource else "")
        )


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of `kubectl get`, as in a CRD; a `priority` above 0 appears only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


class Lookup(Protocol):
    """Reads other objects for admission rules."""

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None: ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]: ...


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One write as admission sees it.

    `operation` is CREATE, UPDATE or DELETE; `subresource` is "", "status" or "scale".
    """

    operation: str
    object: Object
    old: Object | None = None
    subresource: str = ""
    lookup: Lookup
    settings: "Settings"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Kueue Configuration that admission reads. Loaded by `api.configuration`."""

    frameworks: frozenset[str] = frozenset({"batch/job"})
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: Mapping[str, Any] | None = None
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    custom_jobs: Mapping[tuple[str, str], tuple[str, ...]] = msgspec.field(default_factory=dict)
    """(group, kind) of the job kinds that the Configuration describes, to their suspend field."""
    external_jobs: frozenset[Resource] = frozenset()
    """The job kinds that other controllers queue (`integrations.externalFrameworks`)."""
    custom_plurals: Mapping[tuple[str, str], str] = msgspec.field(default_factory=dict)
    """The plurals of these kinds, where they are not the kind in lower case with an s."""


class ValidationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The errors and warnings of a validator.

    `denied` are errors of a webhook (403 without causes), `invalid` those of the schema and of CEL
    rules (422 with causes).
    """

    invalid: tuple[FieldError, ...] = ()
    denied: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    webhook: str = ""
    """The name of Kueue's webhook, for `errors.denied`."""


Defaulter = Callable[[AdmissionRequest], None]
"""Sets defaults in `request.object` in place, before validation.
Raises `ApiError` where Kueue's mutating webhook refuses what it cannot decode."""

Validator = Callable[[AdmissionRequest], ValidationResult]

Reader = Callable[[Object], list[str]]
"""Replaces lenient spellings in place, before unknown fields are searched; returns warnings."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    schema: Schema = msgspec.field(
        default_factory=lambda: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    )
    columns: tuple[Column, ...] = ()
    has_status: bool = True
    scale: Mapping[str, str] | None = None
    """As in a CRD: specReplicasPath, statusReplicasPath, labelSelectorPath."""
    selectable_fields: tuple[str, ...] = ()
    deprecation_warning: str = ""
    storage_version: str = ""
    """The storage version; "" means this one."""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    reader: Reader | None = None
    defaulter: Defaulter | None = None
    validator: Validator | None = None
    is_builtin: bool = True
    """Whether Kubernetes itself has the kind: strategic merge patch applies, no CRD is printed."""

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()


class Scheme:
    """Kinds by (apiVersion, kind) and by (group, version, plural)."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        for kind in kinds:
            self.register(kind)

    def register(self, kind: Kind) -> None:
        self._by_kind[kind.api_version, kind.kind] = kind
        self._by_path[kind.group, kind.version, kind.plural] = kind

    def unregister(self, kind: Kind) -> None:
        self._by_kind.pop((kind.api_version, kind.kind), None)
        self._by_path.pop((kind.group, kind.version, kind.plural), None)

    def for_object(self, obj: Object) -> Kind | None:
        return self._by_kind.get((obj.get("apiVersion", ""), obj.get("kind", "")))

    def for_kind(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def for_path(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())
