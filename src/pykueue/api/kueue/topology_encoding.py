"""The compact form of a topology assignment, and the plain list of domains that it encodes.

A slice encodes domains whose values have something in common: one value for all, or a common
prefix and suffix around roots. Long lists of host names are split into runs with a common prefix
if that is shorter. Used by conversion and by `translate`.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pykueue.api.scheme import Object

HOSTNAME = "kubernetes.io/hostname"
MOST_DOMAINS_IN_SLICE = 100_000
MOST_SLICES = 1_000


class TopologyDomainAssignment(msgspec.Struct, frozen=True):
    """A number of pods in one domain; `values` has the value of each level, the widest first."""

    values: tuple[str, ...]
    count: int


def decode(assignment: Object) -> list[TopologyDomainAssignment]:
    """The domains of a compact assignment, in order."""
    return [domain for part in assignment.get("slices") or () for domain in _domains(part)]


def encode(
    levels: Sequence[str], domains: Sequence[TopologyDomainAssignment], *, by_hostname_prefix: bool = True
) -> Object:
    """The shorter of the two compact forms: one slice, or runs of host names."""
    whole = _assignment(levels, [domains] if domains else [])
    if not by_hostname_prefix:
        return whole
    split = encode_in_runs(levels, domains)
    if len(split["slices"]) <= 1 or len(domains) > MOST_DOMAINS_IN_SLICE:
        return split
    return whole if _length(whole) < _length(split) else split


def encode_in_runs(levels: Sequence[str], domains: Sequence[TopologyDomainAssignment]) -> Object:
    """One slice for each run of host names that share a prefix up to a dash.

    If the lowest level is not the host name, there is one slice.
    """
    if len(domains) > 1 and levels and levels[-1] == HOSTNAME:
        keys = _prefix_keys([domain.values[-1] for domain in domains])
    else:
        keys = [""] * len(domains)
    return _assignment(levels, list(_chunks(_runs(domains, keys))))


def _domains(part: Object) -> Iterator[TopologyDomainAssignment]:
    size = part["domainCount"]
    columns = [_values(level, size) for level in part["valuesPerLevel"]]
    counts = part["podCounts"]
    per_domain = counts["individual"] if "individual" in counts else [counts["universal"]] * size
    for index in range(size):
        yield TopologyDomainAssignment(tuple(column[index] for column in columns), per_domain[index])


def _values(level: Object, size: int) -> list[str]:
    if "universal" in level:
        return [level["universal"]] * size
    individual = level["individual"]
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    return [prefix + root + suffix for root in individual["roots"]]


def _assignment(levels: Sequence[str], parts: Sequence[Sequence[TopologyDomainAssignment]]) -> Object:
    return {"levels": list(levels), "slices": [_slice(part, len(levels)) for part in parts]}


def _slice(domains: Sequence[TopologyDomainAssignment], level_count: int) -> Object:
    counts = [domain.count for domain in domains]
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level([domain.values[index] for domain in domains]) for index in range(level_count)],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }


def _level(values: Sequence[str]) -> Object:
    prefix = _common_prefix(values)
    if len(prefix) == max(map(len, values)):
        return {"universal": prefix}
    suffix = _common_prefix([value[::-1] for value in values])[::-1]
    prefix = prefix[: min(map(len, values)) - len(suffix)]
    individual: dict[str, Any] = {"roots": [value[len(prefix) : len(value) - len(suffix)] for value in values]}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    """The common prefix of all values, which is that of the smallest and the largest."""
    first, last = min(values), max(values)
    length = next(
        (index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first)
    )
    return first[:length]


def _runs(domains: Sequence[TopologyDomainAssignment], keys: Sequence[str]) -> Iterator[list[TopologyDomainAssignment]]:
    for _, pairs in itertools.groupby(zip(keys, domains, strict=True), key=lambda pair: pair[0]):
        yield [domain for _, domain in pairs]


def _chunks(runs: Iterator[list[TopologyDomainAssignment]]) -> Iterator[list[TopologyDomainAssignment]]:
    for run in runs:
        for start in range(0, len(run), MOST_DOMAINS_IN_SLICE):
            yield run[start : start + MOST_DOMAINS_IN_SLICE]


def _prefix_keys(names: Sequence[str]) -> list[str]:
    """For each name its longest prefix that ends in a dash and that another name shares.

    If that gives too many runs, shorter prefixes are used.
    """
    candidates = [_prefixes(name) for name in names]
    uses = Counter(itertools.chain.from_iterable(candidates))
    for depth in range(max(map(len, candidates)), 0, -1):
        keys = [next((prefix for prefix in reversed(own[:depth]) if uses[prefix] > 1), "") for own in candidates]
        lengths = [sum(1 for _ in group) for _, group in itertools.groupby(keys)]
        if sum(-(-length // MOST_DOMAINS_IN_SLICE) for length in lengths) <= MOST_SLICES:
            return keys
    return [""] * len(names)


def _prefixes(name: str) -> list[str]:
    return [name[: index + 1] for index, character in enumerate(name[:-1]) if character == "-"]


def _length(assignment: Object) -> int:
    return len(json.dumps(assignment, separators=(",", ":"), ensure_ascii=False).encode())
