"""Topology assignments: from the compact form in which the API keeps them to plain domains.

The API factors out what the names of many domains share (a universal value, a prefix, a suffix). Called where the pods of an
admitted workload are counted domain by domain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One domain and how many pods it holds; `values` has one entry a level."""

    values: tuple[str, ...]
    count: int


def domains(assignment: Mapping[str, Any]) -> Iterator[Domain]:
    for part in assignment.get("slices") or ():
        for index in range(part["domainCount"]):
            yield Domain(
                values=tuple(_value(level, index) for level in part["valuesPerLevel"]),
                count=_pod_count(part["podCounts"], index),
            )


def _value(level: Mapping[str, Any], index: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    individual = level["individual"]
    return f"{individual.get('prefix', '')}{individual['roots'][index]}{individual.get('suffix', '')}"


def _pod_count(counts: Mapping[str, Any], index: int) -> int:
    return int(counts["universal"] if "universal" in counts else counts["individual"][index])
