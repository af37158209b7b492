"""Addresses of the kinds that controllers read and write."""

from pykueue.api.scheme import Resource

KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_VERSION = "v1beta2"


def _kueue(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(KUEUE_GROUP, KUEUE_VERSION, plural, kind, namespaced)


WORKLOAD = _kueue("workloads", "Workload", namespaced=True)
CLUSTER_QUEUE = _kueue("clusterqueues", "ClusterQueue")
LOCAL_QUEUE = _kueue("localqueues", "LocalQueue", namespaced=True)
COHORT = _kueue("cohorts", "Cohort")
RESOURCE_FLAVOR = _kueue("resourceflavors", "ResourceFlavor")
ADMISSION_CHECK = _kueue("admissionchecks", "AdmissionCheck")
WORKLOAD_PRIORITY_CLASS = _kueue("workloadpriorityclasses", "WorkloadPriorityClass")
TOPOLOGY = _kueue("topologies", "Topology")
PROVISIONING_REQUEST_CONFIG = _kueue("provisioningrequestconfigs", "ProvisioningRequestConfig")

NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
POD = Resource("", "v1", "pods", "Pod", namespaced=True)
POD_TEMPLATE = Resource("", "v1", "podtemplates", "PodTemplate", namespaced=True)
EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LIMIT_RANGE = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASS = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", namespaced=True
)
RESOURCE_CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
DEVICE_CLASS = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICE = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
LEADER_WORKER_SET = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", namespaced=True)
