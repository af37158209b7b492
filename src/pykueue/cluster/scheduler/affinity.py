"""Node selectors and node affinity, taints and tolerations, pod affinity and anti-affinity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykueue.api import objects, selectors
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler.fleet import Fleet, NodeState

_BLOCKING = ("NoSchedule", "NoExecute")


def matches_node(pod_spec: Object, labels: Mapping[str, str], node_name: str) -> bool:
    """Whether the node matches both the nodeSelector and the required node affinity."""
    if any(labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    affinity = objects.nested(pod_spec, "affinity", "nodeAffinity")
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return matches_terms(required.get("nodeSelectorTerms") or (), labels, node_name)


def matches_terms(terms: Iterable[Object], labels: Mapping[str, str], node_name: str) -> bool:
    """Whether the node matches one of the terms of a node selector."""
    return any(_term_matches(term, labels, node_name) for term in terms)


def preference(pod_spec: Object, labels: Mapping[str, str], node_name: str) -> int:
    """The sum of the weights of the preferred terms that the node matches."""
    affinity = objects.nested(pod_spec, "affinity", "nodeAffinity")
    return sum(
        int(term.get("weight", 1))
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if _term_matches(term.get("preference") or {}, labels, node_name)
    )


def _term_matches(term: Object, labels: Mapping[str, str], node_name: str) -> bool:
    expressions = [*(term.get("matchExpressions") or ())]
    fields = [*(term.get("matchFields") or ())]
    if not expressions and not fields:
        return False
    return all(_requirement(expression).matches(labels) for expression in expressions) and all(
        _requirement(field).matches({"metadata.name": node_name}) for field in fields
    )


def _requirement(expression: Mapping[str, Any]) -> selectors.Requirement:
    return selectors.Requirement(
        expression["key"], expression["operator"], frozenset(map(str, expression.get("values") or ()))
    )


def untolerated(pod_spec: Object, taints: Iterable[Object], effects: Sequence[str] = _BLOCKING) -> Object | None:
    """The first taint with one of the effects that the pod does not tolerate."""
    tolerations = pod_spec.get("tolerations") or ()
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def has_pod_affinity(pod_spec: Object) -> bool:
    affinity = pod_spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


def pod_affinity_fault(pod: Object, state: NodeState, fleet: Fleet) -> str:
    """Why pod (anti-)affinity rejects the node, in kube-scheduler's words; "" if not."""
    affinity = pod["spec"].get("affinity") or {}
    for term in _required(affinity.get("podAffinity")):
        if not _has_matching_pod(term, pod, state, fleet) and not _is_first_of_group(term, pod, state, fleet):
            return "node(s) didn't match pod affinity rules"
    for term in _required(affinity.get("podAntiAffinity")):
        if _has_matching_pod(term, pod, state, fleet):
            return "node(s) didn't match pod anti-affinity rules"
    for other in fleet.pods():
        for term in _required(objects.nested(other, "spec", "affinity").get("podAntiAffinity")):
            if _selects(term, other, pod) and _share_domain(term, fleet.nodes.get(pods.node_name(other)), state):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def _required(rules: Mapping[str, Any] | None) -> Sequence[Object]:
    return (rules or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _has_matching_pod(term: Object, pod: Object, state: NodeState, fleet: Fleet) -> bool:
    return any(
        _selects(term, pod, other) and _share_domain(term, fleet.nodes.get(pods.node_name(other)), state)
        for other in fleet.pods()
    )


def _is_first_of_group(term: Object, pod: Object, state: NodeState, fleet: Fleet) -> bool:
    """Whether the term selects only the pod itself, on a node with the topology key."""
    return (
        term["topologyKey"] in state.labels
        and _selects(term, pod, pod)
        and not any(_selects(term, pod, other) for other in fleet.pods())
    )


def _selects(term: Object, owner: Object, other: Object) -> bool:
    namespaces = term.get("namespaces") or [objects.namespace(owner)]
    requirements = selectors.from_object(term.get("labelSelector"))
    return (
        objects.namespace(other) in namespaces
        and requirements is not None
        and selectors.matches(requirements, objects.labels(other))
    )


def _share_domain(term: Object, first: NodeState | None, second: NodeState) -> bool:
    key = term["topologyKey"]
    return first is not None and key in first.labels and first.labels[key] == second.labels.get(key)
