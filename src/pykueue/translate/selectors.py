"""Converts label selectors, node affinity, taints and tolerations to engine values.

Called by the rest of `translate`.
"""

from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.engine import values

_OPERATORS = frozenset(operator.value for operator in values.Operator)


def label_selector(selector: Object | None) -> values.LabelSelector | None:
    """None selects nothing; an empty selector selects everything."""
    if selector is None:
        return None
    exact = (
        {"key": key, "operator": "In", "values": [value]} for key, value in (selector.get("matchLabels") or {}).items()
    )
    return values.LabelSelector(requirements=_requirements((*exact, *(selector.get("matchExpressions") or ()))))


def affinity_terms(pod_spec: Object) -> tuple[tuple[values.LabelRequirement, ...], ...] | None:
    """The terms of the required node affinity.

    One term must match; a term matches if all its expressions do.
    """
    if not pod_spec.get("affinity"):
        return None
    node_affinity = objects.nested(pod_spec, "affinity", "nodeAffinity")
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    return tuple(_requirements(term.get("matchExpressions") or ()) for term in required.get("nodeSelectorTerms") or ())


def preferred_terms(pod_spec: Object) -> tuple[values.PreferredTerm, ...]:
    """The terms of the preferred node affinity that can match."""
    if not pod_spec.get("affinity"):
        return ()
    node_affinity = objects.nested(pod_spec, "affinity", "nodeAffinity")
    terms = (
        values.PreferredTerm(
            int(preferred.get("weight") or 0),
            _requirements(objects.nested(preferred, "preference").get("matchExpressions") or ()),
        )
        for preferred in node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    )
    return tuple(term for term in terms if term.weight and term.term)


def tolerations(entries: Iterable[Object] | None) -> tuple[values.Toleration, ...]:
    return tuple(
        values.Toleration(
            key=toleration.get("key") or "",
            operator=toleration.get("operator") or "",
            value=toleration.get("value") or "",
            effect=toleration.get("effect") or "",
        )
        for toleration in entries or ()
    )


def taints(entries: Iterable[Object] | None) -> tuple[values.Taint, ...]:
    return tuple(
        values.Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
        for taint in entries or ()
    )


def _requirements(expressions: Iterable[Object]) -> tuple[values.LabelRequirement, ...]:
    return tuple(_requirement(expression) for expression in expressions)


def _requirement(expression: Object) -> values.LabelRequirement:
    """An unknown operator, which a stored pod template may have, matches no label."""
    operator = expression.get("operator", "")
    if operator not in _OPERATORS:
        return values.LabelRequirement(key=expression.get("key", ""), operator=values.Operator.IN)
    return values.LabelRequirement(
        key=expression["key"], operator=values.Operator(operator), values=tuple(expression.get("values") or ())
    )
