"""Builds the `meta.k8s.io/v1` Table of objects with the printer of their kind.

Builtin kinds have computed columns. All other kinds have the JSONPath columns that they declare,
as in a CustomResourceDefinition. Called by the HTTP handlers if a client requests a Table.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Column, Kind, Object
from pykueue.apiserver.tables import ages, cluster, jsonpath, pods, printer, workloads

_BUILTIN = pods.PRINTERS | workloads.PRINTERS | cluster.PRINTERS
_DEFAULT_COLUMNS = (Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),)

INCLUDE_NONE, INCLUDE_METADATA, INCLUDE_OBJECT = "None", "Metadata", "Object"


def columns(kind: Kind) -> list[dict[str, Any]]:
    return [header.definition() for header in printer_of(kind).headers]


def rows(kind: Kind, items: Iterable[Object], now: float, include: str = INCLUDE_METADATA) -> list[dict[str, Any]]:
    cells = printer_of(kind).cells
    return [_row(obj, cells(obj, now), include) for obj in items]


def table(kind: Kind, items: Iterable[Object], now: float, *, metadata: Object, include: str) -> Object:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns(kind),
        "rows": rows(kind, items, now, include),
    }


def partial_metadata(obj: Object) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def printer_of(kind: Kind) -> printer.Printer:
    builtin = _BUILTIN.get((kind.group, kind.kind))
    return builtin or _declared(kind.columns or _DEFAULT_COLUMNS)


def _text(value: Any, _now: float) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()


def _date(value: Any, now: float) -> str | None:
    return ages.age(value, now) if isinstance(value, str) else None


def _integer(value: Any, _now: float) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, _now: float) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: float) -> bool | None:
    return value if isinstance(value, bool) else None


_CONVERSIONS: dict[str, Callable[[Any, float], Any]] = {
    "date": _date,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _text,
}


def _cell_getter(column: Column) -> Callable[[Object, float], Any]:
    path = column.json_path
    convert: Callable[[Any, float], Any] = _CONVERSIONS.get(column.type, _text)

    def getter(obj: Object, now: float) -> Any:
        values = jsonpath.find(path, obj)
        return convert(values[0], now) if values else None

    return getter


@functools.lru_cache(maxsize=512)
def _declared(declared: tuple[Column, ...]) -> printer.Printer:
    headers = (
        printer.Header(name="Name", format="name"),
        *(
            printer.Header(
                name=column.name,
                type=column.type,
                format=column.format,
                priority=column.priority,
                description=column.description,
            )
            for column in declared
        ),
    )
    getters = [_cell_getter(column) for column in declared]

    def cells(obj: Object, now: float) -> list[Any]:
        return [objects.name(obj), *(getter(obj, now) for getter in getters)]

    return printer.Printer(headers, cells)


def _row(obj: Object, cells: list[Any], include: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": cells}
    if include == INCLUDE_METADATA:
        row["object"] = partial_metadata(obj)
    elif include == INCLUDE_OBJECT:
        row["object"] = obj
    return row
