"""A small client of the Kubernetes API: the kinds that stories use, and one request at a time."""

import base64
import http.client
import json
import ssl
import tempfile
import threading
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

import yaml

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 60


class Kind(NamedTuple):
    api_version: str
    plural: str
    namespaced: bool


def _kueue(plural: str, *, namespaced: bool = False) -> Kind:
    return Kind("kueue.x-k8s.io/v1beta2", plural, namespaced)


def _device(plural: str, *, namespaced: bool = False) -> Kind:
    return Kind("resource.k8s.io/v1", plural, namespaced)


KINDS = {
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "Node": Kind("v1", "nodes", namespaced=False),
    "Pod": Kind("v1", "pods", namespaced=True),
    "LimitRange": Kind("v1", "limitranges", namespaced=True),
    "ConfigMap": Kind("v1", "configmaps", namespaced=True),
    "Service": Kind("v1", "services", namespaced=True),
    "Event": Kind("events.k8s.io/v1", "events", namespaced=True),
    "Job": Kind("batch/v1", "jobs", namespaced=True),
    "Deployment": Kind("apps/v1", "deployments", namespaced=True),
    "StatefulSet": Kind("apps/v1", "statefulsets", namespaced=True),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "RuntimeClass": Kind("node.k8s.io/v1", "runtimeclasses", namespaced=False),
    "RayCluster": Kind("ray.io/v1", "rayclusters", namespaced=True),
    "RayJob": Kind("ray.io/v1", "rayjobs", namespaced=True),
    "RayService": Kind("ray.io/v1", "rayservices", namespaced=True),
    "PyTorchJob": Kind("kubeflow.org/v1", "pytorchjobs", namespaced=True),
    "MPIJob": Kind("kubeflow.org/v2beta1", "mpijobs", namespaced=True),
    "JobSet": Kind("jobset.x-k8s.io/v1alpha2", "jobsets", namespaced=True),
    "LeaderWorkerSet": Kind("leaderworkerset.x-k8s.io/v1", "leaderworkersets", namespaced=True),
    "AppWrapper": Kind("workload.codeflare.dev/v1beta2", "appwrappers", namespaced=True),
    "DeviceClass": _device("deviceclasses"),
    "ResourceSlice": _device("resourceslices"),
    "ResourceClaim": _device("resourceclaims", namespaced=True),
    "ResourceClaimTemplate": _device("resourceclaimtemplates", namespaced=True),
    "ClusterQueue": _kueue("clusterqueues"),
    "Cohort": _kueue("cohorts"),
    "ResourceFlavor": _kueue("resourceflavors"),
    "AdmissionCheck": _kueue("admissionchecks"),
    "WorkloadPriorityClass": _kueue("workloadpriorityclasses"),
    "Topology": _kueue("topologies"),
    "ProvisioningRequestConfig": _kueue("provisioningrequestconfigs"),
    "MultiKueueConfig": _kueue("multikueueconfigs"),
    "MultiKueueCluster": _kueue("multikueueclusters"),
    "LocalQueue": _kueue("localqueues", namespaced=True),
    "Workload": _kueue("workloads", namespaced=True),
}
JOB_KINDS = (
    "Job",
    "PyTorchJob",
    "RayCluster",
    "RayJob",
    "RayService",
    "MPIJob",
    "JobSet",
    "AppWrapper",
    "Deployment",
    "StatefulSet",
    "LeaderWorkerSet",
    "Pod",
)


def path(
    kind: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
    *,
    version: str | None = None,
) -> str:
    api_version = version or KINDS[kind].api_version
    segments = ["", "apis" if "/" in api_version else "api", api_version]
    if KINDS[kind].namespaced and namespace:
        segments += ["namespaces", namespace]
    return "/".join([*segments, KINDS[kind].plural, *filter(None, (name, subresource))])


class Response(NamedTuple):
    code: int
    body: Any
    warnings: list[str]
    """The texts of the Warning headers."""

    @property
    def items(self) -> list[Any]:
        return (self.body.get("items") or []) if self.code == 200 else []


class ApiClient:
    """Requests with the credentials of a kubeconfig; every thread has a connection of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        users = [entry for entry in document.get("users") or () if entry["name"] == context.get("user")]
        user = (users[0]["user"] if users else {}) or {}
        self._url = urllib.parse.urlsplit(cluster["server"])
        self._headers = {"Accept": JSON, **_authorization(user)}
        self._tls = _tls(cluster, user) if self._url.scheme == "https" else None
        self._local = threading.local()

    def request(
        self, method: str, target: str, body: Any = None, *, content_type: str = JSON, accept: str = JSON
    ) -> Response:
        headers = {**self._headers, "Accept": accept}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), content_type
        response, text = self._send(method, self._url.path.rstrip("/") + target, data, headers)
        warnings = [
            warning[warning.find('"') + 1 : warning.rfind('"')].replace('\\"', '"')
            for warning in response.msg.get_all("Warning") or ()
        ]
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = {"message": text.decode(errors="replace")}
        return Response(response.status, answer, warnings)

    def _send(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Try again on a new connection if the server closed the old one."""
        for attempt in range(1, _ATTEMPTS + 1):
            connection = self._connection()
            try:
                connection.request(method, target, data, headers)
                response = connection.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                self._local.connection = None
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            host, port = self._url.hostname or "", self._url.port
            if self._tls is not None:
                connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=self._tls)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
            self._local.connection = connection
        return connection


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _authorization(user: dict[str, str]) -> dict[str, str]:
    if user.get("token"):
        return {"Authorization": f"Bearer {user['token']}"}
    if user.get("username"):
        credentials = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        return {"Authorization": f"Basic {credentials}"}
    return {}


def _tls(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif cluster.get("certificate-authority-data"):
        context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    elif cluster.get("certificate-authority"):
        context.load_verify_locations(cluster["certificate-authority"])
    with tempfile.TemporaryDirectory() as directory:
        certificate = _file(user, "client-certificate", Path(directory))
        key = _file(user, "client-key", Path(directory))
        if certificate and key:
            context.load_cert_chain(certificate, key)
    return context


def _file(user: dict[str, str], name: str, directory: Path) -> str | None:
    if user.get(f"{name}-data"):
        file = directory / name
        file.write_bytes(base64.b64decode(user[f"{name}-data"]))
        return str(file)
    return user.get(name)
