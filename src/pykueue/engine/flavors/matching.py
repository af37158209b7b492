"""Label selectors, taints and node affinity with the semantics of Kubernetes."""

from collections.abc import Mapping

from pykueue.engine import values
from pykueue.engine.values import Operator

_HARD_EFFECTS = (values.TaintEffect.NO_SCHEDULE, values.TaintEffect.NO_EXECUTE)


def selects(selector: values.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and all(satisfies(requirement, labels) for requirement in selector.requirements)


def satisfies(requirement: values.LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value is None or value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GREATER:
            return _compares(value, requirement, 1)
        case Operator.LESS:
            return _compares(value, requirement, -1)


def _compares(value: str | None, requirement: values.LabelRequirement, sign: int) -> bool:
    if value is None or len(requirement.values) != 1:
        return False
    try:
        return (int(value) - int(requirement.values[0])) * sign > 0
    except ValueError:
        return False


def tolerates(toleration: values.Toleration, taint: values.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt":
            return _compares_numbers(taint.value, toleration.value, 1)
        case "Lt":
            return _compares_numbers(taint.value, toleration.value, -1)
        case _:
            return False


def _compares_numbers(taint_value: str, toleration_value: str, sign: int) -> bool:
    try:
        return (int(taint_value) - int(toleration_value)) * sign > 0
    except ValueError:
        return False


def untolerated_taint(flavor: values.ResourceFlavor, pod_set: values.PodSet) -> values.Taint | None:
    if not flavor.node_taints:
        return None
    return first_untolerated(flavor.node_taints, (*pod_set.tolerations, *flavor.tolerations))


def first_untolerated(
    taints: tuple[values.Taint, ...], tolerations: tuple[values.Toleration, ...]
) -> values.Taint | None:
    for taint in taints:
        if taint.effect in _HARD_EFFECTS and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def matches_terms(terms: tuple[tuple[values.LabelRequirement, ...], ...], labels: Mapping[str, str]) -> bool:
    """Whether some term matches a node; a term without expressions never matches."""
    return any(bool(term) and all(satisfies(requirement, labels) for requirement in term) for term in terms)


def matches_affinity(flavor: values.ResourceFlavor, pod_set: values.PodSet) -> bool:
    """Node selector and required node affinity, reduced to the labels that the flavor has."""
    labels = flavor.node_labels
    for key, value in pod_set.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    if pod_set.affinity_terms is None:
        return True
    terms = [[requirement for requirement in term if requirement.key in labels] for term in pod_set.affinity_terms]
    if not all(terms):
        return True
    if not terms:
        return True
    return any(all(satisfies(requirement, labels) for requirement in term) for term in terms)
