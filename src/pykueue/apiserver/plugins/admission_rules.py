"""Which requests a policy, binding or webhook is about: rules and selectors.

`Matcher` is built once from `matchConstraints`, `matchResources` or a webhook.
"""

from collections.abc import Iterator, Sequence

from pykueue.api import errors, resources, selectors
from pykueue.api.scheme import Kind, Lookup, Object, Scheme
from pykueue.apiserver import versions
from pykueue.apiserver.plugins.admission_attributes import Attributes

GROUP = "admissionregistration.k8s.io"
_EXEMPT = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)


def is_exempt(kind: Kind) -> bool:
    """Policies and webhooks never apply to policies and webhooks: they could not be removed."""
    return kind.group == GROUP and kind.kind in _EXEMPT


class Matcher:
    def __init__(self, match: Object, scheme: Scheme, *, rules: str = "resourceRules") -> None:
        """`rules` is the field of the rules; without any, an object matches all requests."""
        self._rules: Sequence[Object] = match.get(rules) or ()
        self._excluded: Sequence[Object] = match.get("excludeResourceRules") or ()
        self._is_equivalent = match.get("matchPolicy") != "Exact"
        self._namespace_selector: Object = match.get("namespaceSelector") or {}
        self._object_selector: Object = match.get("objectSelector") or {}
        self._scheme = scheme

    def may_match(self, kind: Kind, subresource: str, operation: str) -> bool:
        """Whether some request for this resource matches."""
        return not self._rules or any(
            _matches_rule(rule, candidate, subresource, operation)
            for rule in self._rules
            for candidate in self._equivalents(kind)
        )

    def matched_kind(self, attributes: Attributes, lookup: Lookup) -> Kind | None:
        """The kind in the version of the rule that matches; None if the request does not match."""
        if not self._selects_namespace(attributes, lookup) or not self._selects_object(attributes):
            return None
        if self._excluded and self._kind_of_rules(self._excluded, attributes) is not None:
            return None
        return self._kind_of_rules(self._rules, attributes) if self._rules else attributes.kind

    def _kind_of_rules(self, rules: Sequence[Object], attributes: Attributes) -> Kind | None:
        for kind in self._equivalents(attributes.kind):
            for rule in rules:
                if not _matches_rule(rule, kind, attributes.subresource, attributes.operation):
                    continue
                if not _matches_scope(rule, attributes):
                    continue
                names = rule.get("resourceNames")
                if not names or attributes.name in names:
                    return kind
        return None

    def _equivalents(self, kind: Kind) -> Iterator[Kind]:
        """The kind itself, then its other versions if the match policy allows them."""
        yield kind
        if self._is_equivalent:
            group = versions.storage_group(kind)
            for other in self._scheme:
                is_same = (versions.storage_group(other), other.plural) == (group, kind.plural)
                if is_same and (other.group, other.version) != (kind.group, kind.version):
                    yield other

    def _selects_namespace(self, attributes: Attributes, lookup: Lookup) -> bool:
        selector = self._namespace_selector
        is_empty = not selector.get("matchLabels") and not selector.get("matchExpressions")
        if is_empty or (not attributes.namespace and not attributes.is_namespace):
            return True
        if attributes.is_namespace and attributes.object is not None:
            return selectors.selects(selector, _labels(attributes.object))
        namespace = lookup.get(resources.NAMESPACE, "", attributes.namespace)
        if namespace is None:
            raise errors.not_found("", "namespaces", attributes.namespace)
        return selectors.selects(selector, _labels(namespace))

    def _selects_object(self, attributes: Attributes) -> bool:
        selector = self._object_selector
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            return True
        both = (attributes.object, attributes.old)
        return any(obj is not None and selectors.selects(selector, _labels(obj)) for obj in both)


def _labels(obj: Object) -> selectors.Labels:
    return obj["metadata"].get("labels") or {}


def _matches_rule(rule: Object, kind: Kind, subresource: str, operation: str) -> bool:
    return (
        _has(rule.get("operations"), operation)
        and _has(rule.get("apiGroups"), kind.group)
        and _has(rule.get("apiVersions"), kind.version)
        and any(_is_resource(text, kind.plural, subresource) for text in rule.get("resources") or ())
    )


def _has(choices: Sequence[str] | None, value: str) -> bool:
    return any(choice in ("*", value) for choice in choices or ())


def _is_resource(text: str, plural: str, subresource: str) -> bool:
    resource, _, below = text.partition("/")
    return resource in ("*", plural) and below in ("*", subresource)


def _matches_scope(rule: Object, attributes: Attributes) -> bool:
    scope = rule.get("scope", "*")
    is_namespaced = bool(attributes.namespace) and not attributes.is_namespace
    return scope == "*" or (scope == "Namespaced") is is_namespaced
