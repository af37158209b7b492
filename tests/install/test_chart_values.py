"""Every value of Kueue's chart changes what is installed, or the notes say that it does not.

The names are those of `values.yaml` in the chart of Kueue v0.19.2. Values of its dashboard, which
is not installed, are represented by `kueueViz`.
"""

import functools
import json
import shutil

import pytest
from tests.install.test_chart import CHART, documents, helm, needs_helm

pytestmark = needs_helm

WITH_WEBHOOKS = {"enableWebhooks": True}
CHANGED = {
    "controllerManager.dnsPolicy": "ClusterFirstWithHostNet",
    "controllerManager.featureGates": [{"name": "PartialAdmission", "enabled": False}],
    "controllerManager.hostNetwork": True,
    "controllerManager.imagePullSecrets": [{"name": "registry"}],
    "controllerManager.livenessProbe.failureThreshold": 77,
    "controllerManager.livenessProbe.initialDelaySeconds": 77,
    "controllerManager.livenessProbe.periodSeconds": 77,
    "controllerManager.livenessProbe.successThreshold": 77,
    "controllerManager.livenessProbe.timeoutSeconds": 77,
    "controllerManager.manager.containerSecurityContext.allowPrivilegeEscalation": True,
    "controllerManager.manager.containerSecurityContext.capabilities.drop": ["NET_RAW"],
    "controllerManager.manager.containerSecurityContext.readOnlyRootFilesystem": False,
    "controllerManager.manager.image.pullPolicy": "Always",
    "controllerManager.manager.image.repository": "registry.example/pykueue",
    "controllerManager.manager.image.tag": "v9",
    "controllerManager.manager.logLevel": 5,
    "controllerManager.manager.podAnnotations": {"team": "platform"},
    "controllerManager.manager.podSecurityContext.runAsNonRoot": False,
    "controllerManager.manager.podSecurityContext.seccompProfile.type": "Unconfined",
    "controllerManager.manager.priorityClassName": "system-cluster-critical",
    "controllerManager.manager.resources.limits.cpu": "7",
    "controllerManager.manager.resources.limits.memory": "7Gi",
    "controllerManager.manager.resources.requests.cpu": "7",
    "controllerManager.manager.resources.requests.memory": "7Gi",
    "controllerManager.nodeSelector": {"pool": "system"},
    "controllerManager.podDisruptionBudget.enabled": True,
    "controllerManager.podDisruptionBudget.minAvailable": 7,
    "controllerManager.readinessProbe.failureThreshold": 77,
    "controllerManager.readinessProbe.initialDelaySeconds": 77,
    "controllerManager.readinessProbe.periodSeconds": 77,
    "controllerManager.readinessProbe.successThreshold": 77,
    "controllerManager.readinessProbe.timeoutSeconds": 77,
    "controllerManager.replicas": 7,
    "controllerManager.strategy": {"rollingUpdate": {"maxSurge": 0}},
    "controllerManager.tolerations": [{"operator": "Exists"}],
    "controllerManager.topologySpreadConstraints": [{"maxSkew": 7}],
    "enableCertManager": True,
    "certManager.issuerRef": {"name": "authority", "kind": "ClusterIssuer"},
    "enableMutatingAdmissionPolicy": True,
    "enablePrometheus": True,
    "enableVisibilityAPF": True,
    "enableVisibilityAuthReaderRoleBinding": False,
    "kubernetesClusterDomain": "cluster.example",
    "managerConfig.controllerManagerConfigYaml": "manageJobsWithoutQueueName: true",
    "metrics.prometheusNamespace": "observability",
    "metrics.serviceMonitor.tlsConfig": {"serverName": "metrics"},
    "metricsService.annotations": {"team": "platform"},
    "metricsService.labels": {"team": "platform"},
    "metricsService.ports": [{"name": "https", "port": 7443}],
    "metricsService.type": "NodePort",
    "mutatingWebhook.reinvocationPolicy": "Never",
    "webhookService.ipDualStack.enabled": True,
    "webhookService.ipDualStack.ipFamilies": ["IPv4"],
    "webhookService.ipDualStack.ipFamilyPolicy": "RequireDualStack",
    "webhookService.ports": [{"port": 7443}],
    "webhookService.type": "NodePort",
}
NEEDED = {
    "certManager": {**WITH_WEBHOOKS, "enableCertManager": True},
    "controllerManager.podDisruptionBudget": {"controllerManager.podDisruptionBudget.enabled": True},
    "enableVisibility": {"enableVisibility": True},
    "kubernetesClusterDomain": {"enableCertManager": True},
    "metrics.": {"enablePrometheus": True},
    "mutatingWebhook": WITH_WEBHOOKS,
    "webhookService.ipDualStack": {**WITH_WEBHOOKS, "webhookService.ipDualStack.enabled": True},
    "webhookService": WITH_WEBHOOKS,
}
"""What must be on for a value to matter, by the beginning of its name; the first one counts."""
WITHOUT_EFFECT = {"enableKueueViz": True, "fullnameOverride": "other", "kueueViz": {"env": []}, "nameOverride": "other"}


def installed(values, chart=CHART):
    return documents(_rendered(json.dumps(values, sort_keys=True), chart))


@functools.cache
def _rendered(values, chart):
    options = (
        word for name, value in json.loads(values).items() for word in ("--set-json", f"{name}={json.dumps(value)}")
    )
    return helm("template", "kueue", str(chart), "--namespace", "kueue-system", *options)


@pytest.mark.parametrize("name", CHANGED)
def test_a_value_of_kueues_chart_changes_what_is_installed(name):
    needed = next((values for begin, values in NEEDED.items() if name.startswith(begin)), {})
    needed = {other: value for other, value in needed.items() if other != name}
    before, after = installed(needed), installed(needed | {name: CHANGED[name]})
    assert before != after
    if not isinstance(CHANGED[name], bool) and name != "controllerManager.manager.logLevel":
        words = json.dumps(CHANGED[name]).strip("[]{}").rpartition(": ")[2].strip('"')
        assert words in json.dumps(after)


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """What Helm prints after an installation; `helm template` leaves it out, so it is made a document."""
    chart = tmp_path_factory.mktemp("chart")
    text = (CHART / "templates" / "NOTES.txt").read_text()
    (chart / "templates").mkdir()
    shutil.copy(CHART / "Chart.yaml", chart)
    template = '{{- define "notes" -}}' + text + '{{- end -}}\nnotes: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(template)
    return lambda values: installed(values, chart)[0]["notes"]


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_the_notes_name_a_value_without_effect(notes, name):
    assert f"WARNING: the value {name} has no effect" in notes({name: WITHOUT_EFFECT[name]})


def test_the_notes_of_an_ordinary_installation_warn_of_nothing(notes):
    assert "WARNING" not in notes({})


def test_cert_manager_keeps_the_certificate_that_the_webhooks_serve():
    objects = installed({**WITH_WEBHOOKS, "enableCertManager": True})
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    certificates = {obj["metadata"]["name"]: obj["spec"] for obj in objects if obj["kind"] == "Certificate"}
    pod = deployment["spec"]["template"]["spec"]
    secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {spec["secretName"] for spec in certificates.values()}
    (config_map,) = [obj for obj in objects if obj["metadata"]["name"] == "kueue-manager-config"]
    assert "internalCertManagement:\n  enable: false" in config_map["data"]["controller_manager_config.yaml"]
    trusted = [obj["metadata"]["annotations"] for obj in objects if "WebhookConfiguration" in obj["kind"]]
    assert all(
        annotations == {"cert-manager.io/inject-ca-from": "kueue-system/pykueue-serving-cert"}
        for annotations in trusted
    )
