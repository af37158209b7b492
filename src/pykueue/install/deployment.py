"""The controller's Deployment, its ConfigMap, and the Services for metrics and webhooks.

The container runs without root, without capabilities and with a read-only file system. With two
replicas one leads and the other waits for the Lease.
"""

from pykueue.api import yaml_text
from pykueue.api.configuration.loading import Loaded
from pykueue.api.scheme import Object
from pykueue.install import rbac

NAME = "pykueue-controller"
CONFIG_MAP = "kueue-manager-config"
CONFIG_KEY = "controller_manager_config.yaml"
_FOLDER = "/etc/pykueue"
_SCRATCH: Object = {"name": "scratch", "emptyDir": {"medium": "Memory"}}
"""OpenSSL reads certificates from files only; this volume keeps them in memory."""
_PRE_STOP_SECONDS = "5"
_LABELS = {"app.kubernetes.io/name": "pykueue", "app.kubernetes.io/component": "controller"}


def labels() -> dict[str, str]:
    """The labels of the controller's pods and of objects that belong to them."""
    return dict(_LABELS)


def namespace(configuration: Loaded) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": configuration.value.namespace}}


def objects(configuration: Loaded, *, image: str, replicas: int, webhooks: bool = False) -> list[Object]:
    deployment = _deployment(configuration, image, replicas)
    if webhooks:
        _serve_webhooks(configuration, deployment["spec"]["template"]["spec"])
    return [
        _config_map(configuration),
        deployment,
        *_metrics_service(configuration),
        *([_webhook_service(configuration)] if webhooks else []),
    ]


def _serve_webhooks(configuration: Loaded, pod: Object) -> None:
    """Make the pod serve webhooks.

    Without `internalCertManagement` the Secret that somebody else keeps is mounted. A pod that
    terminates goes on serving for some seconds, until the API server no longer calls it, so that a
    rollout refuses no job.
    """
    value, container = configuration.value, pod["containers"][0]
    container["args"].append("--webhooks")
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", _PRE_STOP_SECONDS]}}}
    container["ports"].append({"name": "webhooks", "containerPort": value.webhook.port})
    if not value.internal_cert_management.enable:
        secret = value.internal_cert_management.webhook_secret_name
        pod["volumes"].append({"name": "certificate", "secret": {"secretName": secret}})
        container["volumeMounts"].append({"name": "certificate", "mountPath": value.webhook.cert_dir, "readOnly": True})


def _webhook_service(configuration: Loaded) -> Object:
    ports = [{"name": "https", "port": 443, "targetPort": configuration.value.webhook.port}]
    metadata = _metadata(configuration, configuration.value.internal_cert_management.webhook_service_name)
    spec = {"selector": dict(_LABELS), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _metadata(configuration: Loaded, name: str) -> Object:
    return {"name": name, "namespace": configuration.value.namespace, "labels": dict(_LABELS)}


def _config_map(configuration: Loaded) -> Object:
    document = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **configuration.document}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(configuration, CONFIG_MAP),
        "data": {CONFIG_KEY: yaml_text.dump([document])},
    }


def _deployment(configuration: Loaded, image: str, replicas: int) -> Object:
    pod: Object = {
        "serviceAccountName": rbac.NAME,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(configuration, image)],
        "volumes": [{"name": "configuration", "configMap": {"name": CONFIG_MAP}}, _SCRATCH],
        "terminationGracePeriodSeconds": 10,
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": dict(_LABELS)},
        "template": {"metadata": {"labels": dict(_LABELS)}, "spec": pod},
    }
    metadata = _metadata(configuration, NAME)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _container(configuration: Loaded, image: str) -> Object:
    health = configuration.value.health
    probed = _port(health.health_probe_bind_address)
    ports = {_port(configuration.value.metrics.bind_address): "metrics", probed: "health"}
    return {
        "name": "controller",
        "image": image,
        "args": ["controller", f"--config={_FOLDER}/{CONFIG_KEY}"],
        "ports": [{"name": name, "containerPort": port} for port, name in ports.items() if port],
        "livenessProbe": _probe(health.liveness_endpoint_name, probed),
        "readinessProbe": _probe(health.readiness_endpoint_name, probed),
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": _FOLDER, "readOnly": True},
            {"name": _SCRATCH["name"], "mountPath": "/tmp"},  # noqa: S108 - of the container
        ],
    }


def _probe(endpoint: str, port: int) -> Object:
    return {"httpGet": {"path": f"/{endpoint}", "port": port}, "initialDelaySeconds": 5, "periodSeconds": 10}


def _port(address: str) -> int:
    """The port of the address, 0 if it has none."""
    return int(address.rpartition(":")[2] or 0)


def _metrics_service(configuration: Loaded) -> list[Object]:
    port = _port(configuration.value.metrics.bind_address)
    if not port:
        return []
    spec = {"selector": dict(_LABELS), "ports": [{"name": "https", "port": port, "targetPort": port}]}
    metadata = _metadata(configuration, f"{NAME}-metrics")
    metadata["labels"]["app.kubernetes.io/component"] = "metrics"
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]
