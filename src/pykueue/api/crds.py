"""CustomResourceDefinitions of the registered kinds, as `pykueue manifests crds` prints them.

v1beta2 is the storage version. Without a conversion webhook an API server only relabels versions,
which would lose renamed fields; so a version whose fields need conversion is then listed but not
served.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from pykueue.api.kueue import conversion
from pykueue.api.scheme import Column, Kind, Object


def definitions(kinds: Iterable[Kind], *, conversion_service: str = "") -> list[Object]:
    """One definition for each kind; `conversion_service` is `namespace/name` of the webhook."""
    custom = sorted((kind for kind in kinds if not kind.is_builtin), key=lambda kind: (kind.group, kind.plural))
    return [
        _definition(list(versions), conversion_service)
        for _, versions in groupby(custom, key=lambda kind: (kind.group, kind.plural))
    ]


def _definition(versions: list[Kind], conversion_service: str) -> Object:
    kind = versions[0]
    names: Object = {
        "kind": kind.kind,
        "listKind": kind.list_kind,
        "plural": kind.plural,
        "singular": kind.singular_name,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    spec: Object = {
        "group": kind.group,
        "names": names,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "versions": [_version(version, is_converted=bool(conversion_service)) for version in versions],
    }
    if conversion_service and any(_needs_conversion(version) for version in versions):
        spec["conversion"] = _webhook(conversion_service)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": spec,
    }


def _version(kind: Kind, *, is_converted: bool) -> Object:
    version: Object = {
        "name": kind.version,
        "served": is_converted or not _needs_conversion(kind),
        "storage": kind.storage_version in ("", kind.version),
    }
    if kind.deprecation_warning:
        version |= {"deprecated": True, "deprecationWarning": kind.deprecation_warning}
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in kind.columns]
    if kind.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable_fields]
    subresources: Object = {"status": {}} if kind.has_status else {}
    if kind.scale:
        subresources["scale"] = dict(kind.scale)
    if subresources:
        version["subresources"] = subresources
    version["schema"] = {"openAPIV3Schema": kind.schema}
    return version


def _needs_conversion(kind: Kind) -> bool:
    return kind.to_storage is not None and kind.kind in conversion.KINDS_WITH_RENAMED_FIELDS


def _column(column: Column) -> dict[str, Any]:
    printer_column: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        printer_column["description"] = column.description
    if column.priority:
        printer_column["priority"] = column.priority
    if column.format:
        printer_column["format"] = column.format
    return printer_column


def _webhook(service: str) -> Object:
    namespace, _, name = service.partition("/")
    client: Object = {"service": {"namespace": namespace, "name": name, "path": "/convert"}}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}
