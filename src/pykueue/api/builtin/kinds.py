"""The kinds of Kubernetes and of the job frameworks that an embedded cluster serves.

Collected by `api.registry`.
"""

import functools
from collections.abc import Callable

from msgspec.structs import replace

from pykueue.api.builtin import older_versions, schemas
from pykueue.api.scheme import Column, Kind, Object

_AGE = Column(name="Age", json_path=".metadata.creationTimestamp", type="date")
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_DEVICE_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_IN_CATEGORY_ALL = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Job",
        "Pod",
        "ReplicaSet",
        "ReplicationController",
        "Service",
        "StatefulSet",
    }
)


def _builtin(
    api_version: str,
    kind: str,
    short: str = "",
    *,
    namespaced: bool = True,
    has_status: bool = False,
    is_scaled: bool = False,
    plural: str = "",
) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=("all",) if kind in _IN_CATEGORY_ALL else (),
        has_status=has_status,
        scale=_SCALE if is_scaled else None,
        schema=schemas.of_kind(api_version, kind),
    )


def _framework(
    api_version: str, kind: str, *columns: Column, short: str = "", namespaced: bool = True, plural: str = ""
) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
        namespaced=namespaced,
        short_names=tuple(short.split()),
        columns=columns,
        schema=schemas.of_kind(api_version, kind),
        is_builtin=False,
    )


def _core() -> list[Kind]:
    return [
        _builtin("v1", "Namespace", "ns", namespaced=False, has_status=True),
        _builtin("v1", "Node", "no", namespaced=False, has_status=True),
        _builtin("v1", "Pod", "po", has_status=True),
        _builtin("v1", "PodTemplate"),
        _builtin("v1", "Event", "ev"),
        _builtin("v1", "ConfigMap", "cm"),
        _builtin("v1", "Secret"),
        _builtin("v1", "ServiceAccount", "sa"),
        _builtin("v1", "Service", "svc", has_status=True),
        _builtin("v1", "Endpoints", "ep", plural="endpoints"),
        _builtin("v1", "LimitRange", "limits"),
        _builtin("v1", "ResourceQuota", "quota", has_status=True),
        _builtin("v1", "PersistentVolume", "pv", namespaced=False, has_status=True),
        _builtin("v1", "PersistentVolumeClaim", "pvc", has_status=True),
        _builtin("v1", "ReplicationController", "rc", has_status=True, is_scaled=True),
    ]


def _groups() -> list[Kind]:
    rbac, admission = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
    networking, flow_control = "networking.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1"
    return [
        _builtin("apps/v1", "Deployment", "deploy", has_status=True, is_scaled=True),
        _builtin("apps/v1", "ReplicaSet", "rs", has_status=True, is_scaled=True),
        _builtin("apps/v1", "StatefulSet", "sts", has_status=True, is_scaled=True),
        _builtin("apps/v1", "DaemonSet", "ds", has_status=True),
        _builtin("apps/v1", "ControllerRevision"),
        _builtin("batch/v1", "Job", has_status=True),
        _builtin("batch/v1", "CronJob", "cj", has_status=True),
        _builtin("autoscaling/v2", "HorizontalPodAutoscaler", "hpa", has_status=True),
        _builtin("policy/v1", "PodDisruptionBudget", "pdb", has_status=True),
        _builtin(networking, "NetworkPolicy", "netpol", plural="networkpolicies"),
        _builtin(networking, "Ingress", "ing", has_status=True, plural="ingresses"),
        _builtin(networking, "IngressClass", namespaced=False, plural="ingressclasses"),
        _builtin("storage.k8s.io/v1", "StorageClass", "sc", namespaced=False, plural="storageclasses"),
        _builtin("storage.k8s.io/v1", "CSINode", namespaced=False),
        _builtin("discovery.k8s.io/v1", "EndpointSlice"),
        _builtin(flow_control, "FlowSchema", namespaced=False, has_status=True),
        _builtin(flow_control, "PriorityLevelConfiguration", namespaced=False, has_status=True),
        _builtin("scheduling.k8s.io/v1", "PriorityClass", "pc", namespaced=False, plural="priorityclasses"),
        _builtin("node.k8s.io/v1", "RuntimeClass", namespaced=False, plural="runtimeclasses"),
        _builtin("certificates.k8s.io/v1", "CertificateSigningRequest", "csr", namespaced=False, has_status=True),
        _builtin("coordination.k8s.io/v1", "Lease"),
        _builtin("resource.k8s.io/v1", "DeviceClass", namespaced=False, plural="deviceclasses"),
        _builtin("resource.k8s.io/v1", "ResourceClaim", has_status=True),
        _builtin("resource.k8s.io/v1", "ResourceClaimTemplate"),
        _builtin("resource.k8s.io/v1", "ResourceSlice", namespaced=False),
        _builtin("events.k8s.io/v1", "Event", "ev"),
        _builtin(rbac, "Role"),
        _builtin(rbac, "RoleBinding"),
        _builtin(rbac, "ClusterRole", namespaced=False),
        _builtin(rbac, "ClusterRoleBinding", namespaced=False),
        _builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition", "crd crds", namespaced=False, has_status=True),
        _builtin(
            admission,
            "ValidatingAdmissionPolicy",
            namespaced=False,
            has_status=True,
            plural="validatingadmissionpolicies",
        ),
        _builtin(admission, "ValidatingAdmissionPolicyBinding", namespaced=False),
        _builtin(admission, "MutatingAdmissionPolicy", namespaced=False, plural="mutatingadmissionpolicies"),
        _builtin(admission, "MutatingAdmissionPolicyBinding", namespaced=False),
        _builtin(admission, "ValidatingWebhookConfiguration", namespaced=False),
        _builtin("apiregistration.k8s.io/v1", "APIService", namespaced=False, has_status=True),
        _builtin(admission, "MutatingWebhookConfiguration", namespaced=False),
    ]


def _older_versions() -> list[Kind]:
    """Versions that clients of older releases write; they are stored in the current one."""
    current = {(kind.group, kind.kind): kind for kind in _groups()}
    devices = [current["resource.k8s.io", kind] for kind in _DEVICE_KINDS]
    return [
        _older(
            current["autoscaling", "HorizontalPodAutoscaler"],
            "v1",
            older_versions.autoscaler_from_v1,
            older_versions.autoscaler_to_v1,
        ),
        *(
            _older(kind, "v1beta2", older_versions.devices_from_v1beta2, older_versions.devices_to_v1beta2)
            for kind in devices
        ),
        *(
            _older(kind, "v1beta1", older_versions.devices_from_v1beta1, older_versions.devices_to_v1beta1)
            for kind in devices
        ),
    ]


def _older(
    current: Kind, version: str, to_storage: Callable[[Object], Object], from_storage: Callable[[Object], Object]
) -> Kind:
    return replace(
        current,
        version=version,
        schema=schemas.of_kind(f"{current.group}/{version}", current.kind),
        storage_version=current.version,
        to_storage=to_storage,
        from_storage=from_storage,
    )


def _status(name: str, field: str, column_type: str = "string", priority: int = 0) -> Column:
    return Column(name=name, json_path=f".status.{field}", type=column_type, priority=priority)


_LAST_CONDITION = Column(name="State", json_path=".status.conditions[-1:].type")
_TRUE_CONDITION = Column(name="State", json_path=".status.conditions[?(@.status=='True')].type")
"""For kinds that keep conditions with status False: a resumed TrainJob has Suspended=False."""


def _frameworks() -> list[Kind]:
    kubeflow = [
        _framework("kubeflow.org/v1", kind, _LAST_CONDITION, _AGE)
        for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
    ]
    return [*kubeflow, *_mpi_job(), *_ray(), *_others()]


def _mpi_job() -> list[Kind]:
    """Two operators serve this kind in two versions. Objects are stored in Kueue's version."""
    current = _framework("kubeflow.org/v2beta1", "MPIJob")
    old = replace(
        current,
        version="v1",
        columns=(_AGE, _LAST_CONDITION),
        storage_version=current.version,
        to_storage=lambda obj: {**obj, "apiVersion": current.api_version},
        from_storage=lambda obj: {**obj, "apiVersion": "kubeflow.org/v1"},
    )
    return [current, old]


def _ray() -> list[Kind]:
    kinds = [
        _framework(
            "ray.io/v1",
            "RayCluster",
            _status("desired workers", "desiredWorkerReplicas", "integer"),
            _status("available workers", "availableWorkerReplicas", "integer"),
            _status("cpus", "desiredCPU"),
            _status("memory", "desiredMemory"),
            _status("gpus", "desiredGPU"),
            _status("tpus", "desiredTPU", priority=1),
            _status("status", "state"),
            _AGE,
            _status("head pod IP", "head.podIP", priority=1),
            _status("head service IP", "head.serviceIP", priority=1),
        ),
        _framework(
            "ray.io/v1",
            "RayJob",
            _status("job status", "jobStatus"),
            _status("deployment status", "jobDeploymentStatus"),
            _status("ray cluster name", "rayClusterName"),
            _status("start time", "startTime"),
            _status("end time", "endTime"),
            _AGE,
        ),
        _framework(
            "ray.io/v1",
            "RayService",
            _status("service status", "serviceStatus"),
            _status("num serve endpoints", "numServeEndpoints"),
        ),
    ]
    return [replace(kind, categories=("all",)) for kind in kinds]


def _leader_worker_set() -> Kind:
    kind = _framework(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        _status("Ready", "readyReplicas", "integer"),
        Column(name="Desired", json_path=".spec.replicas", type="integer"),
        _status("Up-to-date", "updatedReplicas", "integer"),
        _AGE,
        short="lws",
    )
    return replace(kind, scale=_SCALE | {"labelSelectorPath": ".status.hpaPodSelector"})


def _app_wrapper() -> Kind:
    return _framework(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        _status("Status", "phase"),
        *(
            Column(name=name, json_path=f".status.conditions[?(@.type=='{name.replace(' ', '')}')].status")
            for name in ("Quota Reserved", "Resources Deployed", "Unhealthy")
        ),
        _AGE,
        short="aw",
    )


def _spark_application() -> Kind:
    return _framework(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        Column(name="Suspend", json_path=".spec.suspend", type="boolean"),
        _status("Status", "applicationState.state"),
        _status("Attempts", "executionAttempts"),
        _status("Start", "lastSubmissionAttemptTime"),
        _status("Finish", "terminationTime"),
        _AGE,
        short="sparkapp",
    )


def _others() -> list[Kind]:
    return [
        _app_wrapper(),
        _spark_application(),
        _framework(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            _status("TerminalState", "terminalState"),
            _status("Restarts", "restarts"),
            Column(name="Completed", json_path=".status.conditions[?(@.type=='Completed')].status"),
            Column(name="Suspended", json_path=".spec.suspend"),
            Column(name="Age", json_path=".metadata.creationTimestamp", type="date"),
        ),
        _leader_worker_set(),
        _framework("trainer.kubeflow.org/v1alpha1", "TrainJob", _TRUE_CONDITION, _AGE),
        _framework("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", _AGE),
        _framework("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", _AGE, namespaced=False),
        _framework(
            "autoscaling.x-k8s.io/v1",
            "ProvisioningRequest",
            Column(name="ProvisioningClassName", json_path=".spec.provisioningClassName"),
            *(
                Column(name=name, json_path=f".status.conditions[?(@.type=='{name}')].status")
                for name in ("Accepted", "Provisioned", "Failed")
            ),
            _AGE,
            short="provreq provreqs",
        ),
        _framework(
            "karpenter.sh/v1",
            "NodePool",
            Column(name="NodeClass", json_path=".spec.template.spec.nodeClassRef.name"),
            _status("Nodes", "resources.nodes"),
            Column(name="Ready", json_path=".status.conditions[?(@.type=='Ready')].status"),
            _AGE,
            Column(name="Weight", json_path=".spec.weight", type="integer", priority=1),
            namespaced=False,
        ),
        _framework(
            "karpenter.sh/v1",
            "NodeClaim",
            Column(name="Type", json_path=".metadata.labels.node\\.kubernetes\\.io/instance-type"),
            Column(name="Capacity", json_path=".metadata.labels.karpenter\\.sh/capacity-type"),
            Column(name="Node", json_path=".status.nodeName"),
            Column(name="Ready", json_path=".status.conditions[?(@.type=='Ready')].status"),
            _AGE,
            namespaced=False,
        ),
    ]


@functools.cache
def kinds() -> tuple[Kind, ...]:
    return (*_core(), *_groups(), *_older_versions(), *_frameworks())
