"""Which LocalQueue a pod is imported into: rules by labels and priority class, in order."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object


class MappingError(Exception):
    """The rules cannot be read."""


class QueueRule(msgspec.Struct, frozen=True, kw_only=True):
    labels: Mapping[str, str]
    priority_class: str = ""
    """"" matches pods of any class."""
    queue: str = ""
    skip: bool = False

    def matches(self, pod: Object) -> bool:
        pod_labels = objects.labels(pod)
        has_class = self.priority_class in ("", objects.spec(pod).get("priorityClassName", ""))
        return has_class and all(pod_labels.get(name) == value for name, value in self.labels.items())


def from_label(label: str, queues: Mapping[str, str]) -> list[QueueRule]:
    """A rule for each value of one label."""
    return [QueueRule(labels={label: value}, queue=queue) for value, queue in queues.items()]


def from_document(document: Any) -> list[QueueRule]:
    """The rules of a mapping file."""
    if not isinstance(document, list):
        raise MappingError("the file must be a list of rules, each with match and toLocalQueue or skip")
    return [_rule(entry, number) for number, entry in enumerate(document)]


def _rule(entry: Any, number: int) -> QueueRule:
    match = entry.get("match") if isinstance(entry, dict) else None
    if not isinstance(match, dict) or not isinstance(match.get("labels") or {}, dict):
        raise MappingError(f"rule {number}: write match with labels, and toLocalQueue or skip")
    if unknown := {*entry} - {"match", "toLocalQueue", "skip"} | {*match} - {"labels", "priorityClassName"}:
        raise MappingError(f"rule {number}: unknown field {min(unknown)}")
    rule = QueueRule(
        labels={name: str(value) for name, value in (match.get("labels") or {}).items()},
        priority_class=str(match.get("priorityClassName") or ""),
        queue=str(entry.get("toLocalQueue") or ""),
        skip=entry.get("skip") is True,
    )
    if not rule.skip and not rule.queue:
        raise MappingError(f"rule {number}: toLocalQueue is missing")
    return rule


def find(rules: Sequence[QueueRule], pod: Object) -> QueueRule | None:
    """The first rule that matches the pod."""
    return next((rule for rule in rules if rule.matches(pod)), None)
