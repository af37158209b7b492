"""Variants of a set of queues: other quotas, other manifests, another Configuration.

    clusterqueue/team-a.nominalQuota[gpu]=8
    clusterqueue/team-a.nominalQuota[a100/gpu]=4..16:2      (a range: one variant for each value)
    clusterqueue/team-a.preemption.withinClusterQueue=LowerPriority
    cohort/all.fairSharing.weight=2

A quota is named by its resource, or by flavor and resource; `gpu` stands for `nvidia.com/gpu`. Any
other field is a path below `spec`.
"""

import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import yaml

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.simulate.sources import manifests
from pykueue.simulate.sources.rows import SourceError

_QUOTAS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_SETTING = re.compile(
    r"(?P<kind>\w+)/(?P<name>[^=\s\[]+?)\.(?P<field>[A-Za-z][\w.]*)(?:\[(?P<key>[^\]]+)\])?=(?P<value>.*)"
)
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?::(\d+))?")
_MOST_VARIANTS = 1000


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one field."""

    kind: str
    name: str
    field: str
    key: str
    value: str
    text: str


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    settings: tuple[Setting, ...] = ()
    objects: tuple[Object, ...] = ()
    configuration: Mapping[str, Any] | None = None


def parse(text: str) -> list[Setting]:
    """The settings of one `--set`; a range gives several."""
    match = _SETTING.fullmatch(text.strip())
    if match is None:
        remedy = "Write KIND/NAME.FIELD=VALUE, such as clusterqueue/team-a.nominalQuota[gpu]=8."
        raise SourceError(f"{text!r} is not a setting", file="--set", remedy=remedy)
    names = {name: match[name] or "" for name in ("kind", "name", "field", "key")}
    left = text.strip().rpartition("=")[0]
    return [
        Setting(
            kind=names["kind"].lower(),
            name=names["name"],
            field=names["field"],
            key=names["key"],
            value=value,
            text=f"{left}={value}",
        )
        for value in _values(match["value"], text)
    ]


def _values(text: str, whole: str) -> list[str]:
    match = _RANGE.fullmatch(text)
    if match is None:
        return [text]
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if last < first or not step or (last - first) // step >= _MOST_VARIANTS:
        remedy = "Write FIRST..LAST:STEP, such as 4..16:2, with at most 1,000 values."
        raise SourceError(f"{whole!r}: an empty or too long range", file="--set", remedy=remedy)
    return [str(value) for value in range(first, last + 1, step)]


def combined(texts: Sequence[str]) -> list[tuple[Setting, ...]]:
    """All combinations of the values of several `--set`."""
    combinations = list(itertools.product(*map(parse, texts)))
    if len(combinations) > _MOST_VARIANTS:
        remedy = "Use fewer or shorter ranges: at most 1,000 combinations run."
        raise SourceError(f"{len(combinations)} combinations", file="--set", remedy=remedy)
    return combinations


def changed(items: Sequence[Object], variant: Variant) -> list[Object]:
    """The objects with the changes of a variant."""
    replaced = {_identity(obj): obj for obj in variant.objects}
    result = [replaced.pop(_identity(obj), obj) for obj in items] + list(replaced.values())
    for setting in variant.settings:
        result = _with_setting(result, setting)
    return result


def _identity(obj: Object) -> tuple[str, str, str]:
    return str(obj["kind"]), objects.namespace(obj), objects.name(obj)


def _with_setting(items: list[Object], setting: Setting) -> list[Object]:
    matches = [
        position
        for position, obj in enumerate(items)
        if obj["kind"].lower() == setting.kind and setting.name in (objects.name(obj), _qualified(obj))
    ]
    if len(matches) != 1:
        names = sorted(objects.name(obj) for obj in items if obj["kind"].lower() == setting.kind)
        remedy = (
            f"There are: {', '.join(names)}." if names else "Kinds are clusterqueue, localqueue, cohort and others."
        )
        count = "no" if not matches else "more than one"
        raise SourceError(f"{count} {setting.kind} {setting.name}", file=f"--set {setting.text}", remedy=remedy)
    obj = copy.deepcopy(items[matches[0]])
    if setting.field in _QUOTAS:
        _set_quota(obj, setting)
    else:
        _set_field(obj, setting)
    return [*items[: matches[0]], _admitted(obj, setting), *items[matches[0] + 1 :]]


def _admitted(obj: Object, setting: Setting) -> Object:
    """The changed object, if an API server would accept it."""
    try:
        return manifests.load([("", yaml.safe_dump(obj).encode())]).objects[0]
    except SourceError as error:
        raise SourceError(error.message, file=f"--set {setting.text}") from None


def _qualified(obj: Object) -> str:
    return f"{objects.namespace(obj)}/{objects.name(obj)}"


def _set_quota(obj: Object, setting: Setting) -> None:
    entries = [
        (flavor["name"], entry)
        for group in obj["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for entry in flavor["resources"]
    ]
    matches = [entry for flavor, entry in entries if setting.key in _quota_names(flavor, entry["name"])]
    if len(matches) != 1:
        quotas = ", ".join(f"[{flavor}/{entry['name']}]" for flavor, entry in entries)
        message = "no such quota" if not matches else "several flavors have this resource"
        raise SourceError(message, file=f"--set {setting.text}", remedy=f"Write one of {quotas or '(no quota)'}.")
    if setting.value in ("", "none", "null"):
        matches[0].pop(setting.field, None)
    else:
        matches[0][setting.field] = setting.value


def _quota_names(flavor: str, resource: str) -> tuple[str, ...]:
    """The names of one quota: with and without its flavor, the resource whole or short."""
    short = resource.rpartition("/")[2]
    return resource, short, f"{flavor}/{resource}", f"{flavor}/{short}"


def _set_field(obj: Object, setting: Setting) -> None:
    target = obj.setdefault("spec", {})
    *parents, last = setting.field.removeprefix("spec.").split(".")
    for name in parents:
        target = target.setdefault(name, {})
        if not isinstance(target, dict):
            remedy = "Only fields of objects can be set; use --apply FILE for lists."
            raise SourceError(f"{name} is not an object", file=f"--set {setting.text}", remedy=remedy)
    target[last] = yaml.safe_load(setting.value)
