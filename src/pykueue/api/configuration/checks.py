"""The rules of the Configuration that its types cannot express.

They work on the plain v1beta2 object, so that all errors are reported at once, even if a field has
the wrong type.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator

from pykueue.api import durations, feature_gates, selectors
from pykueue.api.configuration import device_checks, tls_names, types
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object

_STRATEGY_SETS = (
    ["LessThanOrEqualToFinalShare"],
    ["LessThanInitialShare"],
    ["LessThanOrEqualToFinalShare", "LessThanInitialShare"],
)
_TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")
_LABELS_PER_KIND = {"ClusterQueue": 6, "Cohort": 6, "LocalQueue": 6, "Workload": 2}
_LABEL_NAME = "[a-zA-Z][a-zA-Z0-9_]*"
_KIND_VERSION_GROUP = r"[^.]+\.[^.]+\.[^.]+(\.[^.]+)*"
_FIELD_PATH = r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*|\[\d+\])*"


def check(configuration: Object) -> list[FieldError]:
    return [
        *_check_pods_ready(reading.mapping(configuration.get("waitForPodsReady"))),
        *_check_integrations(configuration),
        *_check_multi_kueue(configuration),
        *_check_fair_sharing(configuration.get("fairSharing")),
        *_check_admission_fair_sharing(configuration.get("admissionFairSharing")),
        *_check_certificates(reading.mapping(configuration.get("internalCertManagement"))),
        *_check_resources(reading.mapping(configuration.get("resources"))),
        *_check_devices(configuration),
        *_check_namespace_selector(configuration),
        *_check_retention(reading.mapping(reading.at(configuration, "objectRetentionPolicies", "workloads"))),
        *_check_tls(reading.mapping(configuration.get("tls"))),
        *_check_leader_election(reading.mapping(configuration.get("leaderElection"))),
        *_check_visibility(reading.mapping(configuration.get("visibilityServer"))),
        *_check_custom_labels(reading.mappings(reading.at(configuration, "metrics", "customLabels"))),
        *_check_feature_gates(configuration.get("featureGates")),
    ]


def _is_on(configuration: Object, gate: str) -> bool:
    gates = reading.mapping(configuration.get("featureGates"))
    return feature_gates.is_enabled({name: value is True for name, value in gates.items()}, gate)


def _is_negative(text: object) -> bool:
    try:
        return durations.to_ns(reading.text(text) or "0") < 0
    except ValueError:
        return False


def _check_not_negative(path: str, section: Object, *names: str) -> Iterator[FieldError]:
    for name in names:
        value = section.get(name)
        if _is_negative(value) or reading.integer(value) < 0:
            yield faults.invalid(f"{path}.{name}", value, faults.NEGATIVE)


def _check_pods_ready(section: Object) -> Iterator[FieldError]:
    yield from _check_not_negative("waitForPodsReady", section, "timeout", "recoveryTimeout")
    strategy = reading.mapping(section.get("requeuingStrategy"))
    counts = ("backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")
    yield from _check_not_negative("waitForPodsReady.requeuingStrategy", strategy, *counts)


def _check_integrations(configuration: Object) -> Iterator[FieldError]:
    section = reading.mapping(configuration.get("integrations"))
    names: set[str] = set()
    for index, name in enumerate(reading.texts(section.get("frameworks"))):
        path = f"integrations.frameworks[{index}]"
        if name not in job_kinds.JOB_KINDS:
            yield faults.not_supported(path, name, sorted(job_kinds.JOB_KINDS))
        elif name in names:
            yield faults.duplicate(path, name)
        elif name == job_kinds.SPARK_APPLICATION.name and not _is_on(configuration, "SparkApplicationIntegration"):
            yield faults.forbidden(path, "requires the feature gate SparkApplicationIntegration")
        names.add(name)
    for index, name in enumerate(reading.texts(section.get("externalFrameworks"))):
        path = f"integrations.externalFrameworks[{index}]"
        if re.fullmatch(_KIND_VERSION_GROUP, name) is None:
            yield faults.invalid(path, name, "must be format, 'Kind.version.group.com'")
        elif name in names:
            yield faults.duplicate(path, name)
        names.add(name)
    for index, custom in enumerate(reading.mappings(section.get("custom"))):
        yield from _check_custom_framework(f"integrations.custom[{index}]", custom)


def _check_custom_framework(path: str, custom: Object) -> Iterator[FieldError]:
    group, kind = reading.text(custom.get("group")), reading.text(custom.get("kind"))
    if job_kinds.of_owner(f"{group}/v", kind) is not None:
        detail = "Kueue manages this kind itself; name it in integrations.frameworks instead"
        yield faults.invalid(f"{path}.kind", kind, detail)
    paths = {name: custom.get(name) for name in ("suspend", "active")}
    pod_sets = reading.mappings(custom.get("podSets"))
    if not pod_sets:
        yield faults.required(f"{path}.podSets", "say where the pod templates are")
    for index, pod_set in enumerate(pod_sets):
        paths |= {f"podSets[{index}].{name}": pod_set.get(name) for name in ("template", "count")}
        name = reading.text(pod_set.get("name", "main"))
        for words in syntax.dns_label(name):
            yield faults.invalid(f"{path}.podSets[{index}].name", name, words)
    for name, value in paths.items():
        if isinstance(value, str) and value and re.fullmatch(_FIELD_PATH, value, re.ASCII) is None:
            yield faults.invalid(f"{path}.{name}", value, "must be the path of a field, such as spec.suspend")
        elif name == "suspend" and "[" in reading.text(value):
            yield faults.invalid(f"{path}.suspend", value, "must not lead through a list: a job has one such field")


def _check_multi_kueue(configuration: Object) -> Iterator[FieldError]:
    section = reading.mapping(configuration.get("multiKueue"))
    yield from _check_not_negative("multiKueue", section, "gcInterval", "workerLostTimeout")
    origin = reading.text(section.get("origin"))
    if words := syntax.label_value(origin):
        yield faults.invalid("multiKueue.origin", origin, ",".join(words))
    names: set[str] = set()
    for index, framework in enumerate(reading.mappings(section.get("externalFrameworks"))):
        path, name = f"multiKueue.externalFrameworks[{index}].name", reading.text(framework.get("name"))
        if re.fullmatch(_KIND_VERSION_GROUP, name) is None:
            yield faults.invalid(path, name, "must be in 'kind.version.group' format")
        elif name in names:
            yield faults.duplicate(path, name)
        names.add(name)
    profile = reading.mapping(section.get("clusterProfile"))
    if profile.get("accessProviders") and profile.get("credentialsProviders"):
        path = "multiKueue.clusterProfile.credentialsProviders"
        yield faults.forbidden(path, "must not be specified when accessProviders is specified")
    incremental = section.get("incrementalDispatcherConfig")
    if incremental is not None:
        path = "multiKueue.incrementalDispatcherConfig"
        if section.get("dispatcherName") != types.INCREMENTAL:
            detail = (
                "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher"
            )
            yield faults.invalid(path, incremental, detail)
        size = reading.integer(reading.at(incremental, "stepSize"), 1)
        if size < 1:
            yield faults.invalid(f"{path}.stepSize", size, "must be greater than or equal to 1")


def _check_fair_sharing(section: object) -> Iterator[FieldError]:
    if section is None:
        return
    path, strategies = "fairSharing.preemptionStrategies", reading.at(section, "preemptionStrategies")
    if not strategies:
        yield faults.required(path, "must be specified")
    elif strategies not in _STRATEGY_SETS:
        yield faults.not_supported(path, strategies, (",".join(choice) for choice in _STRATEGY_SETS))


def _check_admission_fair_sharing(section: object) -> Iterator[FieldError]:
    if not isinstance(section, dict):
        return
    yield from _check_not_negative("admissionFairSharing", section, "usageHalfLifeTime", "usageSamplingInterval")
    for name, weight in reading.mapping(section.get("resourceWeights")).items():
        if isinstance(weight, int | float) and weight < 0:
            yield faults.invalid(f"admissionFairSharing.resourceWeights[{name}]", weight, faults.NEGATIVE)


def _check_certificates(section: Object) -> Iterator[FieldError]:
    if section.get("enable") is False:
        return
    for name in ("webhookServiceName", "webhookSecretName"):
        value = section.get(name)
        words = syntax.dns_subdomain(value) if isinstance(value, str) else []
        if words:
            yield faults.invalid(f"internalCertManagement.{name}", value, ",".join(words))


def _check_resources(section: Object) -> Iterator[FieldError]:
    if section.get("quotaCheckStrategy") == "IgnoreUndeclared" and section.get("excludeResourcePrefixes"):
        detail = "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
        yield faults.invalid("resources.quotaCheckStrategy", "IgnoreUndeclared", detail)
    inputs: set[str] = set()
    for index, transformation in enumerate(reading.mappings(section.get("transformations"))):
        name = reading.text(transformation.get("input"))
        if name in inputs:
            yield faults.duplicate(f"resources.transformations[{index}].input", name)
        inputs.add(name)


def _check_devices(configuration: Object) -> Iterator[FieldError]:
    section, gates = (reading.mapping(configuration.get(name)) for name in ("resources", "featureGates"))
    switches = {name: value for name, value in gates.items() if isinstance(value, bool)}
    yield from device_checks.check(reading.mappings(section.get("deviceClassMappings")), switches)


def _check_namespace_selector(configuration: Object) -> Iterator[FieldError]:
    path, selector = "managedJobsNamespaceSelector", configuration.get("managedJobsNamespaceSelector")
    if not isinstance(selector, dict):
        return
    wrong = syntax.check_label_selector(path, selector)
    yield from wrong
    if wrong:
        return
    for namespace in ("kube-system", reading.text(configuration.get("namespace")) or "kueue-system"):
        if selectors.selects(selector, {"kubernetes.io/metadata.name": namespace}):
            yield faults.invalid(path, selector, f'should not match the "{namespace}" namespace')


def _check_retention(section: Object) -> Iterator[FieldError]:
    path = "objectRetentionPolicies.workloads"
    yield from _check_not_negative(path, section, "afterFinished", "afterDeactivatedByKueue")


def _check_tls(section: Object) -> Iterator[FieldError]:
    version = section.get("minVersion")
    if version and version not in _TLS_VERSIONS:
        yield faults.not_supported("tls.minVersion", version, _TLS_VERSIONS)
    suites = section.get("cipherSuites")
    if version == "VersionTLS13" and suites:
        yield faults.invalid("tls.cipherSuites", suites, "may not be specified when `minVersion` is 'VersionTLS13'")
    for index, suite in enumerate(reading.texts(suites)):
        if suite not in tls_names.CIPHER_SUITES:
            yield faults.not_supported(f"tls.cipherSuites[{index}]", suite, tls_names.CIPHER_SUITES)
    curves = section.get("curvePreferences")
    for index, curve in enumerate(curves if isinstance(curves, list) else ()):
        if curve not in tls_names.CURVES:
            numbers = ", ".join(f"{number} ({name})" for number, name in tls_names.CURVES.items())
            yield faults.invalid(f"tls.curvePreferences[{index}]", curve, f"must be one of: {numbers}")


def _check_leader_election(section: Object) -> Iterator[FieldError]:
    """Leases are the only lock that Kubernetes' library still has."""
    lock = section.get("resourceLock")
    if isinstance(lock, str) and lock not in ("", "leases"):
        yield faults.not_supported("leaderElection.resourceLock", lock, ("leases",))


def _check_visibility(section: Object) -> Iterator[FieldError]:
    address = section.get("bindAddress")
    if isinstance(address, str):
        try:
            ipaddress.ip_address(address)
        except ValueError:
            yield faults.invalid("visibilityServer.bindAddress", address, "must be a valid IP address")
    port = reading.integer(section.get("bindPort"), 1)
    if not 1 <= port <= 65535:
        yield faults.invalid("visibilityServer.bindPort", port, "must be a valid port number (1-65535)")


def _check_custom_labels(labels: list[Object]) -> Iterator[FieldError]:
    path = "metrics.customLabels"
    if len(labels) > 20:
        yield faults.too_many(path, len(labels), 20)
    names = [reading.text(label.get("name")) for label in labels]
    for index, label in enumerate(labels):
        here = f"{path}[{index}]"
        if re.fullmatch(_LABEL_NAME, names[index], re.ASCII) is None:
            yield faults.invalid(f"{here}.name", names[index], f"must match ^{_LABEL_NAME}$")
        if names[index] in names[:index]:
            yield faults.duplicate(f"{here}.name", names[index])
        if label.get("sourceLabelKey") and label.get("sourceAnnotationKey"):
            yield faults.invalid(here, label, "sourceLabelKey and sourceAnnotationKey are mutually exclusive")
        yield from _check_tracked_values(f"{here}.trackedValues", label)
    kinds = Counter(reading.text(label.get("sourceKind")) or "ClusterQueue" for label in labels)
    for kind, count in sorted(kinds.items()):
        most = _LABELS_PER_KIND.get(kind, count)
        if count > most:
            detail = f"too many custom labels for source kind {kind}: found {count}, expected <= {most}"
            yield faults.invalid(path, labels, detail)


def _check_tracked_values(path: str, label: Object) -> Iterator[FieldError]:
    values = reading.texts(label.get("trackedValues"))
    is_workload = label.get("sourceKind") == "Workload"
    if is_workload and not values:
        yield faults.invalid(path, values, "must not be empty when sourceKind is 'Workload'")
    if is_workload and len(values) > 12:
        yield faults.invalid(path, values, "must not be greater than 12 when sourceKind is 'Workload'")
    if not is_workload and len(values) > 16:
        yield faults.too_many(path, len(values), 16)
    if len(set(values)) < len(values):
        yield faults.invalid(path, values, "must not contain duplicates")


def _check_feature_gates(gates: object) -> Iterator[FieldError]:
    configured = {name: value for name, value in reading.mapping(gates).items() if isinstance(value, bool)}
    for name, value in configured.items():
        gate = feature_gates.GATES.get(name)
        if gate is None:
            yield faults.invalid(f"featureGates.{name}", value, f"unrecognized feature gate: {name}")
        elif gate.is_locked and value != gate.is_on:
            detail = f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {str(gate.is_on).lower()}"
            yield faults.invalid(f"featureGates.{name}", value, detail)
    for name, gate in feature_gates.GATES.items():
        missing = [needed for needed in gate.needs if not feature_gates.is_enabled(configured, needed)]
        if feature_gates.is_enabled(configured, name):
            for needed in missing:
                path = f"featureGates.{needed if needed in configured else name}"
                yield faults.invalid(path, name, f"{name} requires {needed} to be enabled")
