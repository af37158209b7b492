"""Webhook configurations, for clusters whose API server cannot run our admission policies.

A job with a queue must not start unmanaged, so that it is refused while no webhook answers. A job
without a queue is not refused then: it matches a configuration of its own, whose failures are
ignored. The webhooks have Kueue's names, which users see in refusals.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import registry, resources
from pykueue.api.configuration.types import Configuration
from pykueue.api.kueue.kinds import GROUP, STORAGE_VERSION
from pykueue.api.labels import QUEUE_NAME
from pykueue.api.rules import table
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import Object, Resource, Settings
from pykueue.install import managed_kinds, version_aliases

MUTATE, VALIDATE = "/mutate", "/validate"
QUEUED, UNQUEUED = "pykueue-webhooks", "pykueue-webhooks-unqueued"
"""Names of the configurations; each exists as a mutating and as a validating one."""
API_VERSION = "admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = resources.MUTATING_WEBHOOK_CONFIGURATION, resources.VALIDATING_WEBHOOK_CONFIGURATION
_CREATE, _WRITES = ("CREATE",), ("CREATE", "UPDATE")
_TIMEOUT_SECONDS, _IGNORED_TIMEOUT_SECONDS = 10, 2
_HAS_QUEUE, _HAS_NONE = (
    {"matchExpressions": [{"key": QUEUE_NAME, "operator": operator}]} for operator in ("Exists", "DoesNotExist")
)
_NOT_BEING_DELETED = {
    "name": "not-going",
    "expression": "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)",
}
"""Updates of objects that are being deleted pass, whether the webhook answers or not."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the webhooks: a Service, or a URL outside the cluster (https://host:port)."""

    namespace: str
    service: str
    url: str = ""

    @classmethod
    def of(cls, configuration: Configuration, url: str = "") -> "Endpoint":
        service = configuration.internal_cert_management.webhook_service_name
        return cls(namespace=configuration.namespace, service=service, url=url)

    def client_config(self, path: str) -> Object:
        if self.url:
            return {"url": self.url.rstrip("/") + path}
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}}


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """The webhooks of one kind or of several, by configuration."""

    mutating: tuple[Object, ...] = ()
    validating: tuple[Object, ...] = ()
    mutating_unqueued: tuple[Object, ...] = ()
    validating_unqueued: tuple[Object, ...] = ()

    def configurations(self) -> Iterator[Object]:
        for kind, name, entries in (
            (MUTATING.kind, QUEUED, self.mutating),
            (VALIDATING.kind, QUEUED, self.validating),
            (MUTATING.kind, UNQUEUED, self.mutating_unqueued),
            (VALIDATING.kind, UNQUEUED, self.validating_unqueued),
        ):
            metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "pykueue"}}
            yield {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": list(entries)}


def configurations(settings: Settings, endpoint: Endpoint) -> list[Object]:
    parts = [
        of_queues(endpoint),
        *(of_jobs(job_kind, settings, endpoint) for job_kind in managed_kinds.enabled(settings)),
    ]
    return list(_joined(parts).configurations())


def _joined(parts: Sequence[Entries]) -> Entries:
    return Entries(
        mutating=tuple(webhook for part in parts for webhook in part.mutating),
        validating=tuple(webhook for part in parts for webhook in part.validating),
        mutating_unqueued=tuple(webhook for part in parts for webhook in part.mutating_unqueued),
        validating_unqueued=tuple(webhook for part in parts for webhook in part.validating_unqueued),
    )


def of_queues(endpoint: Endpoint) -> Entries:
    """The webhooks of Kueue's own kinds."""
    mutating, validating = [], []
    for kind in registry.scheme():
        if (kind.group, kind.version) != (GROUP, STORAGE_VERSION) or (kind.group, kind.kind) not in table.WEBHOOKS:
            continue
        is_workload = kind.kind == "Workload"
        versions = (STORAGE_VERSION, version_aliases.OLD_VERSION)
        written = _rule(kind.resource, _CREATE if is_workload else _WRITES, versions)
        checked = _rule(kind.resource, _WRITES, versions, subresources=("status",) if is_workload else ())
        mutating.append(_mutating(kind.kind, endpoint, [written], {}))
        validating.append(_validating(kind.kind, endpoint, [checked], {}))
    return Entries(mutating=tuple(mutating), validating=tuple(validating))


def of_jobs(job_kind: JobKind, settings: Settings, endpoint: Endpoint) -> Entries:
    """The webhooks of a job kind.

    If jobs without a queue are managed, they must not start unmanaged either, so that failures are
    not ignored.
    """
    resource, kind = job_kind.resource, job_kind.resource.kind
    written = [_rule(resource, _WRITES if job_kind.implies_pods else _CREATE)]
    checked = [_rule(resource, _WRITES)]
    everywhere = _namespaces({}, endpoint)
    managed = _namespaces(settings.managed_jobs_namespace_selector or {}, endpoint)
    queued = {"objectSelector": _HAS_QUEUE, "namespaceSelector": everywhere}
    failure_options = {} if settings.manage_jobs_without_queue_name else _IGNORED
    return Entries(
        mutating=(_mutating(kind, endpoint, written, queued),),
        validating=(_validating(kind, endpoint, checked, queued),),
        mutating_unqueued=(
            _mutating(
                kind, endpoint, written, {"objectSelector": _HAS_NONE, "namespaceSelector": managed, **failure_options}
            ),
        ),
        validating_unqueued=(
            _validating(
                kind, endpoint, checked, {"objectSelector": _HAS_NONE, "namespaceSelector": everywhere, **_IGNORED}
            ),
        ),
    )


_IGNORED = {"failurePolicy": "Ignore", "timeoutSeconds": _IGNORED_TIMEOUT_SECONDS}


def _namespaces(selector: Mapping[str, Any], endpoint: Endpoint) -> Object:
    """The selector without kube-system and the controller's own namespace.

    Otherwise the controller could not start while no webhook answers.
    """
    own = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", endpoint.namespace],
    }
    expressions = [expression for expression in selector.get("matchExpressions") or () if expression != own]
    return {**selector, "matchExpressions": [*expressions, own]}


def _rule(
    resource: Resource, operations: Sequence[str], versions: Sequence[str] = (), *, subresources: Sequence[str] = ()
) -> Object:
    return {
        "apiGroups": [resource.group],
        "apiVersions": list(versions or (resource.version,)),
        "operations": list(operations),
        "resources": [resource.plural, *(f"{resource.plural}/{subresource}" for subresource in subresources)],
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }


def _mutating(kind: str, endpoint: Endpoint, rules: list[Object], terms: Object) -> Object:
    reinvoked = {"reinvocationPolicy": "IfNeeded"}
    return _webhook(f"m{kind.lower()}.kb.io", endpoint.client_config(MUTATE), rules, reinvoked | terms)


def _validating(kind: str, endpoint: Endpoint, rules: list[Object], terms: Object) -> Object:
    return _webhook(f"v{kind.lower()}.kb.io", endpoint.client_config(VALIDATE), rules, terms)


def _webhook(name: str, client_config: Object, rules: list[Object], terms: Object) -> Object:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": rules,
        "matchPolicy": "Equivalent",
        "matchConditions": [_NOT_BEING_DELETED],
        "failurePolicy": "Fail",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **terms,
    }
