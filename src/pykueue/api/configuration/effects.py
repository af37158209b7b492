"""What each field of the Configuration does: who reads it, and where it ends.

The table has every field. `tests/api/test_effects.py` checks that the modules named here read it,
and `tools/compatibility.py` writes docs/compatibility.md from it. `limits_of` warns of what an
administrator set without effect; `pykueue validate`, the API (for the ConfigMap of the
Configuration), `pykueue up` and `pykueue controller` print the warnings.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykueue.api import feature_gates
from pykueue.api.rules import reading
from pykueue.api.scheme import Object


class FieldEffect(msgspec.Struct, frozen=True, kw_only=True):
    read_by: tuple[str, ...] = ()
    """The modules of pykueue through which the field passes; the last one reads it."""
    limits: str = ""
    """What pykueue leaves out. Every field without a reader has it."""
    most: int | None = None
    """The limits concern lists of more items than this."""
    is_of_controller: bool = False
    """`pykueue up` does not read it: it concerns a process in a cluster."""


_SETTINGS = FieldEffect(read_by=("controllers.settings",))
_POLICY = FieldEffect(read_by=("translate.policy",))
_ELECTION = FieldEffect(read_by=("app.controller",), is_of_controller=True)
_ENDPOINTS = FieldEffect(read_by=("app.controller",), is_of_controller=True)
_HEALTH = FieldEffect(read_by=("app.controller", "app.components"))
_WEBHOOKS = FieldEffect(read_by=("webhooks.service",), is_of_controller=True)
_TLS = FieldEffect(read_by=("webhooks.service", "webhooks.serving_certificate"), is_of_controller=True)
_LABELS = FieldEffect(read_by=("controllers.metrics.instruments",))
_LOCAL_QUEUE_METRICS = FieldEffect(read_by=("controllers.metrics.local_queue_gauges",))
_CUSTOM = FieldEffect(read_by=("controllers.settings", "translate.jobs.custom"))
_TRANSFORMATIONS = FieldEffect(read_by=("translate.policy", "translate.requests"))
_DEVICES = FieldEffect(read_by=("translate.policy", "translate.devices"))
_PROVIDERS = FieldEffect(read_by=("controllers.settings", "controllers.multikueue.kubeconfig"))
_VISIBILITY = FieldEffect(read_by=("app.visibility.server",), is_of_controller=True)

FIELDS: Mapping[str, FieldEffect] = {
    "admissionFairSharing.resourceWeights": _POLICY,
    "admissionFairSharing.usageHalfLifeTime": _POLICY,
    "admissionFairSharing.usageSamplingInterval": _POLICY,
    "clientConnection.burst": _ENDPOINTS,
    "clientConnection.qps": _ENDPOINTS,
    "controller.cacheSyncTimeout": _SETTINGS,
    "controller.groupKindConcurrency": _SETTINGS,
    "fairSharing.preemptionStrategies": _POLICY,
    "featureGates": _SETTINGS,
    "health.healthProbeBindAddress": _HEALTH,
    "health.livenessEndpointName": _HEALTH,
    "health.readinessEndpointName": _HEALTH,
    "integrations.custom[].active": _CUSTOM,
    "integrations.custom[].finished.failed": _CUSTOM,
    "integrations.custom[].finished.succeeded": _CUSTOM,
    "integrations.custom[].group": _CUSTOM,
    "integrations.custom[].kind": _CUSTOM,
    "integrations.custom[].plural": _CUSTOM,
    "integrations.custom[].podSets[].count": _CUSTOM,
    "integrations.custom[].podSets[].name": _CUSTOM,
    "integrations.custom[].podSets[].template": _CUSTOM,
    "integrations.custom[].ready": _CUSTOM,
    "integrations.custom[].suspend": _CUSTOM,
    "integrations.custom[].version": _CUSTOM,
    "integrations.externalFrameworks": _SETTINGS,
    "integrations.frameworks": _SETTINGS,
    "integrations.labelKeysToCopy": _SETTINGS,
    "integrations.rayJob.countDefaultSubmitter": _SETTINGS,
    "internalCertManagement.enable": _WEBHOOKS,
    "internalCertManagement.webhookSecretName": _WEBHOOKS,
    "internalCertManagement.webhookServiceName": _WEBHOOKS,
    "leaderElection.leaderElect": _ELECTION,
    "leaderElection.leaseDuration": _ELECTION,
    "leaderElection.renewDeadline": _ELECTION,
    "leaderElection.resourceLock": FieldEffect(read_by=("api.configuration.checks",), is_of_controller=True),
    "leaderElection.resourceName": _ELECTION,
    "leaderElection.resourceNamespace": _ELECTION,
    "leaderElection.retryPeriod": _ELECTION,
    "manageJobsWithoutQueueName": _SETTINGS,
    "managedJobsNamespaceSelector": _SETTINGS,
    "metrics.bindAddress": _ENDPOINTS,
    "metrics.customLabels[].name": _LABELS,
    "metrics.customLabels[].sourceAnnotationKey": _LABELS,
    "metrics.customLabels[].sourceKind": _LABELS,
    "metrics.customLabels[].sourceLabelKey": _LABELS,
    "metrics.customLabels[].trackedValues": _LABELS,
    "metrics.enableClusterQueueResources": FieldEffect(read_by=("controllers.metrics.collector",)),
    "metrics.localQueueMetrics.enable": _LOCAL_QUEUE_METRICS,
    "metrics.localQueueMetrics.localQueueSelector": _LOCAL_QUEUE_METRICS,
    "multiKueue.clusterProfile.accessProviders[].execConfig": _PROVIDERS,
    "multiKueue.clusterProfile.accessProviders[].name": _PROVIDERS,
    "multiKueue.clusterProfile.credentialsProviders[].execConfig": _PROVIDERS,
    "multiKueue.clusterProfile.credentialsProviders[].name": _PROVIDERS,
    "multiKueue.dispatcherName": _SETTINGS,
    "multiKueue.externalFrameworks[].name": _SETTINGS,
    "multiKueue.gcInterval": _SETTINGS,
    "multiKueue.incrementalDispatcherConfig.stepSize": _SETTINGS,
    "multiKueue.origin": _SETTINGS,
    "multiKueue.workerLostTimeout": _SETTINGS,
    "namespace": _SETTINGS,
    "objectRetentionPolicies.workloads.afterDeactivatedByKueue": _SETTINGS,
    "objectRetentionPolicies.workloads.afterFinished": _SETTINGS,
    "pprofBindAddress": FieldEffect(read_by=("app.components",)),
    "preemptionLoopGuard": _POLICY,
    "resources.deviceClassMappings[].deviceClassNames": _DEVICES,
    "resources.deviceClassMappings[].name": _DEVICES,
    "resources.deviceClassMappings[].sources": FieldEffect(read_by=("translate.policy", "translate.device_sources")),
    "resources.excludeResourcePrefixes": _POLICY,
    "resources.quotaCheckStrategy": _POLICY,
    "resources.transformations[].input": _TRANSFORMATIONS,
    "resources.transformations[].multiplyBy": _TRANSFORMATIONS,
    "resources.transformations[].outputs": _TRANSFORMATIONS,
    "resources.transformations[].strategy": _TRANSFORMATIONS,
    "tls.cipherSuites": _TLS,
    "tls.curvePreferences": FieldEffect(
        read_by=_TLS.read_by,
        is_of_controller=True,
        most=1,
        limits="only the first curve is offered, because Python's ssl takes one",
    ),
    "tls.minVersion": _TLS,
    "visibilityServer.bindAddress": _VISIBILITY,
    "visibilityServer.bindPort": _VISIBILITY,
    "waitForPodsReady.blockAdmission": _SETTINGS,
    "waitForPodsReady.recoveryTimeout": _SETTINGS,
    "waitForPodsReady.requeuingStrategy.backoffBaseSeconds": _SETTINGS,
    "waitForPodsReady.requeuingStrategy.backoffLimitCount": _SETTINGS,
    "waitForPodsReady.requeuingStrategy.backoffMaxSeconds": _SETTINGS,
    "waitForPodsReady.requeuingStrategy.timestamp": _POLICY,
    "waitForPodsReady.timeout": _SETTINGS,
    "webhook.certDir": _WEBHOOKS,
    "webhook.host": _WEBHOOKS,
    "webhook.port": _WEBHOOKS,
}
"""By path. An entry also stands for the fields below it."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the administrator set and that has no effect, or not all of it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def limits_of(document: Object) -> list[Limit]:
    """The settings of a v1beta2 Configuration that pykueue does not obey, with what it does."""
    return [*_limits_of_fields(document), *_limits_of_gates(document.get("featureGates"))]


def _limits_of_fields(document: Object) -> Iterator[Limit]:
    for path, effect in FIELDS.items():
        if not effect.limits:
            continue
        words = "acts in part in pykueue" if effect.read_by else "has no effect in pykueue"
        for place, value in _values(document, path.split("."), ""):
            if effect.most is None or (isinstance(value, list) and len(value) > effect.most):
                yield Limit(path=place, message=f"{words}: {effect.limits}")


def _limits_of_gates(gates: object) -> Iterator[Limit]:
    for name, value in reading.mapping(gates).items():
        gate = feature_gates.GATES.get(name)
        if gate is not None and isinstance(value, bool) and not gate.has_effect(value):
            words = "acts in part in pykueue" if gate.read_by else "has no effect in pykueue"
            yield Limit(path=f"featureGates.{name}", message=f"{words}: {gate.limits}")


def fields_of_controller(document: Object) -> list[str]:
    """The fields that are set and that only `pykueue controller` reads."""
    return [
        path
        for path, effect in FIELDS.items()
        if effect.is_of_controller and any(_values(document, path.split("."), ""))
    ]


def _values(value: Any, path: list[str], place: str) -> Iterator[tuple[str, Any]]:
    """The values at the path that are not null, each with its own path."""
    if not path:
        if value is not None:
            yield place, value
        return
    name, *rest = path
    inner = reading.mapping(value).get(name.removesuffix("[]"))
    place = f"{place}.{name.removesuffix('[]')}".lstrip(".")
    if not name.endswith("[]"):
        yield from _values(inner, rest, place)
        return
    for index, item in enumerate(reading.mappings(inner)):
        yield from _values(item, rest, f"{place}[{index}]")
