"""What can be wrong with an installation, as data: each finding has the command that repairs it.

Pure: `pykueue doctor` collects the `Facts` and prints the findings.
"""

from collections.abc import Iterator

import msgspec

from pykueue.api.scheme import Object, Resource

POLICIES_SINCE = (1, 36)
"""The Kubernetes version in which MutatingAdmissionPolicy became generally available."""
_LARGEST_CLOCK_ERROR_SECONDS = 5
_RESTART = "kubectl rollout restart deployment/pykueue-controller --namespace {namespace}"
_PRINT = "pykueue manifests {part}"
_APPLY = " | kubectl apply --server-side -f - --force-conflicts"
_UNCONVERTED = '--type=merge --patch \'{"spec":{"conversion":{"strategy":"None","webhook":null}}}\''
"""A patch, because `kubectl apply` leaves fields that another manager wrote."""
_VISIBILITY = "visibility.kueue.x-k8s.io"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    is_good: bool
    detail: str
    repair: str = ""
    """The command that repairs it."""
    names: tuple[str, ...] = ()
    """What the detail is about."""

    def text(self, most_names: int | None = None) -> str:
        """The detail with its names, or with the first of them and the number of the others."""
        names = self.names[:most_names]
        more = f" and {len(self.names) - len(names)} more (-v)" if len(names) < len(self.names) else ""
        return f"{self.detail} {', '.join(names)}{more}" if names else self.detail


class WebhookFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about an installation with webhooks instead of policies."""

    missing: tuple[str, ...] = ()
    is_trusted: bool = True
    """Whether every webhook trusts the certificate."""
    days_left: float | None = None
    """None if there is no certificate."""
    ready_endpoints: int = 0
    is_outside: bool = False
    """The controller is reached by a URL instead of a Service."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    version: tuple[int, int]
    clock_error_seconds: float
    wanted_definitions: frozenset[str]
    definitions: dict[str, Object]
    """CustomResourceDefinitions by name."""
    wanted_policies: frozenset[str]
    policies: frozenset[str]
    own_webhooks: WebhookFacts | None = None
    webhooks: tuple[str, ...] = ()
    """Webhook configurations that Kueue's own installation left."""
    missing_rights: tuple[str, ...] = ()
    lease_holder: str = ""
    lease_age_seconds: float | None = None
    namespace: str = "kueue-system"
    frameworks: dict[str, Resource] = msgspec.field(default_factory=dict)
    served: frozenset[tuple[str, str]] = frozenset()
    """(group, plural) of the resources that the API server serves."""
    unreachable: frozenset[str] = frozenset()
    """API groups whose extension API server does not answer."""
    is_embedded: bool = False
    """The API of `pykueue up --no-controllers`, in which Kueue's kinds and checks are built in."""
    print_part: str = _PRINT
    """The command that prints a part of the installation with the current Configuration."""


def findings(facts: Facts) -> Iterator[Finding]:
    yield _version(facts)
    yield _clock(facts)
    if facts.is_embedded:
        detail = "pykueue up, which has the definitions, checks and rights of Kueue"
        yield Finding(subject="api", is_good=True, detail=detail)
    else:
        yield _definitions(facts)
    if facts.own_webhooks is not None:
        yield from _own_webhooks(facts.own_webhooks, facts.namespace, _applied(facts, "webhooks"))
    elif not facts.is_embedded:
        yield _policies(facts)
    yield _webhooks(facts)
    if not facts.is_embedded:
        yield _rights(facts)
    yield _leader(facts)
    yield from _visibility(facts)
    yield from _frameworks(facts)


def _version(facts: Facts) -> Finding:
    version = ".".join(map(str, facts.version))
    if facts.version >= POLICIES_SINCE or facts.own_webhooks is not None:
        return Finding(subject="version", is_good=True, detail=f"Kubernetes {version}")
    detail = f"Kubernetes {version} may not suspend jobs by policy; webhooks can"
    repair = "pykueue manifests --webhooks | kubectl apply --server-side -f -"
    return Finding(subject="version", is_good=False, detail=detail, repair=repair)


def _clock(facts: Facts) -> Finding:
    error = abs(facts.clock_error_seconds)
    is_good = error <= _LARGEST_CLOCK_ERROR_SECONDS
    detail = f"{error:.0f} s between this machine and the API server"
    return Finding(
        subject="clock", is_good=is_good, detail=detail, repair="" if is_good else "timedatectl set-ntp true"
    )


def _definitions(facts: Facts) -> Finding:
    missing = sorted(facts.wanted_definitions - facts.definitions.keys())
    converted = sorted(
        name
        for name, definition in facts.definitions.items()
        if name in facts.wanted_definitions
        and (definition["spec"].get("conversion") or {}).get("strategy") == "Webhook"
    )
    repair = _PRINT.format(part="crds") + _APPLY
    if missing:
        return Finding(subject="definitions", is_good=False, detail="missing:", names=tuple(missing), repair=repair)
    if converted:
        detail = "converted by a webhook that may be gone:"
        repair = f"kubectl patch {' '.join(f'crd/{name}' for name in converted)} {_UNCONVERTED} && {repair}"
        return Finding(subject="definitions", is_good=False, detail=detail, names=tuple(converted), repair=repair)
    return Finding(subject="definitions", is_good=True, detail=f"{len(facts.wanted_definitions)} kinds")


def _policies(facts: Facts) -> Finding:
    missing = sorted(facts.wanted_policies - facts.policies)
    if not missing:
        return Finding(subject="policies", is_good=True, detail=f"{len(facts.wanted_policies)} in force")
    repair = _applied(facts, "policies")
    return Finding(subject="policies", is_good=False, detail="missing:", names=tuple(missing), repair=repair)


def _own_webhooks(facts: WebhookFacts, namespace: str, install: str) -> Iterator[Finding]:
    if facts.missing:
        yield Finding(subject="webhooks", is_good=False, detail="missing:", names=facts.missing, repair=install)
    else:
        yield Finding(subject="webhooks", is_good=True, detail="are in force")
    yield _certificate(facts, _RESTART.format(namespace=namespace))
    if facts.is_outside:
        yield Finding(subject="service", is_good=True, detail="the API server calls a controller outside the cluster")
    else:
        detail = f"{facts.ready_endpoints} controllers answer webhooks"
        is_good = facts.ready_endpoints > 0
        repair = "" if is_good else "pykueue manifests controller --webhooks | kubectl apply --server-side -f -"
        yield Finding(subject="service", is_good=is_good, detail=detail, repair=repair)


def _certificate(facts: WebhookFacts, repair: str) -> Finding:
    """Controllers renew the certificate and every `caBundle`; else no controller runs."""
    if facts.days_left is None:
        return Finding(subject="certificate", is_good=False, detail="there is none", repair=repair)
    if facts.days_left <= 0:
        return Finding(subject="certificate", is_good=False, detail="has ended", repair=repair)
    if not facts.is_trusted:
        return Finding(subject="certificate", is_good=False, detail="is not in every caBundle", repair=repair)
    return Finding(subject="certificate", is_good=True, detail=f"trusted, good for {facts.days_left:.0f} days")


def _webhooks(facts: Facts) -> Finding:
    if not facts.webhooks:
        return Finding(subject="webhooks", is_good=True, detail="none of Kueue's that could block a job")
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    repair = f"kubectl delete {kinds} {' '.join(facts.webhooks)}"
    detail = f"left by Kueue, and they refuse jobs while it is down: {', '.join(facts.webhooks)}"
    return Finding(subject="webhooks", is_good=False, detail=detail, repair=f"{repair} --ignore-not-found")


def _rights(facts: Facts) -> Finding:
    if not facts.missing_rights:
        return Finding(subject="rights", is_good=True, detail="of the controller are complete")
    names, repair = facts.missing_rights, _applied(facts, "rbac")
    return Finding(subject="rights", is_good=False, detail="the controller may not:", names=names, repair=repair)


def _leader(facts: Facts) -> Finding:
    if facts.lease_holder and facts.lease_age_seconds is not None and facts.lease_age_seconds < 60:
        detail = f"{facts.lease_holder}, renewed {facts.lease_age_seconds:.0f} s ago"
        return Finding(subject="leader", is_good=True, detail=detail)
    detail = f"{facts.lease_holder} stopped renewing its lease" if facts.lease_holder else "no controller leads"
    repair = "pykueue controller" if facts.is_embedded else _RESTART.format(namespace=facts.namespace)
    return Finding(subject="leader", is_good=False, detail=detail, repair=repair)


def _visibility(facts: Facts) -> Iterator[Finding]:
    """An unavailable API group also blocks the deletion of namespaces."""
    if _VISIBILITY in facts.unreachable:
        repair = f"kubectl rollout restart deployment/pykueue-controller --namespace {facts.namespace}"
        detail = f"no controller answers the API server for {_VISIBILITY}"
        yield Finding(subject="visibility", is_good=False, detail=detail, repair=repair)


def _applied(facts: Facts, part: str) -> str:
    return facts.print_part.format(part=part) + _APPLY


def _frameworks(facts: Facts) -> Iterator[Finding]:
    for name, resource in sorted(facts.frameworks.items()):
        if (resource.group, resource.plural) in facts.served:
            yield Finding(subject="framework", is_good=True, detail=f"{name} is served")
        else:
            detail = f"{name} is enabled, but the cluster has no {resource.plural} yet; it is waited for"
            repair = f"install the operator of {resource.group}, or take {name} out of integrations.frameworks"
            yield Finding(subject="framework", is_good=False, detail=detail, repair=repair)
