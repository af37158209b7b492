"""Label selectors, node affinity, taints and tolerations as engine values. Called by the other modules of `translate`."""

from collections.abc import Iterable

from pykueue.api.scheme import Object
from pykueue.engine import values

_OPERATORS = frozenset(operator.value for operator in values.Operator)


def label_selector(selector: Object | None) -> values.LabelSelector | None:
    """An absent selector selects nothing, an empty one everything."""
    if selector is None:
        return None
    exact = (
        {"key": key, "operator": "In", "values": [value]} for key, value in (selector.get("matchLabels") or {}).items()
    )
    return values.LabelSelector(requirements=_requirements((*exact, *(selector.get("matchExpressions") or ()))))


def affinity_terms(pod_spec: Object) -> tuple[tuple[values.LabelRequirement, ...], ...] | None:
    """Required node affinity: terms are alternatives, the expressions of a term all hold."""
    node_affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return None
    return tuple(_requirements(term.get("matchExpressions") or ()) for term in required.get("nodeSelectorTerms") or ())


def tolerations(listed: Iterable[Object] | None) -> tuple[values.Toleration, ...]:
    return tuple(
        values.Toleration(
            key=toleration.get("key") or "",
            operator=toleration.get("operator") or "",
            value=toleration.get("value") or "",
            effect=toleration.get("effect") or "",
        )
        for toleration in listed or ()
    )


def taints(listed: Iterable[Object] | None) -> tuple[values.Taint, ...]:
    return tuple(
        values.Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"]) for taint in listed or ()
    )


def _requirements(expressions: Iterable[Object]) -> tuple[values.LabelRequirement, ...]:
    return tuple(_requirement(expression) for expression in expressions)


def _requirement(expression: Object) -> values.LabelRequirement:
    """Nothing checks the operators inside a stored pod template: one that is unknown matches no label at all."""
    operator = expression.get("operator", "")
    if operator not in _OPERATORS:
        return values.LabelRequirement(key=expression.get("key", ""), operator=values.Operator.IN)
    return values.LabelRequirement(
        key=expression["key"], operator=values.Operator(operator), values=tuple(expression.get("values") or ())
    )
