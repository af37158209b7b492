"""The API resources that pykueue reads and writes: group, version, plural, kind and scope."""

from pykueue.api.scheme import Resource

KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_VERSION = "v1beta2"
KUEUE_NAMESPACE = "kueue-system"
"""Where the controllers are, unless the Configuration names another namespace."""


def _kueue(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(KUEUE_GROUP, KUEUE_VERSION, plural, kind, namespaced)


def kubeflow(kind: str, version: str = "v1") -> Resource:
    return Resource("kubeflow.org", version, f"{kind.lower()}s", kind, namespaced=True)


WORKLOAD = _kueue("workloads", "Workload", namespaced=True)
CLUSTER_QUEUE = _kueue("clusterqueues", "ClusterQueue")
LOCAL_QUEUE = _kueue("localqueues", "LocalQueue", namespaced=True)
COHORT = _kueue("cohorts", "Cohort")
RESOURCE_FLAVOR = _kueue("resourceflavors", "ResourceFlavor")
ADMISSION_CHECK = _kueue("admissionchecks", "AdmissionCheck")
WORKLOAD_PRIORITY_CLASS = _kueue("workloadpriorityclasses", "WorkloadPriorityClass")
TOPOLOGY = _kueue("topologies", "Topology")
PROVISIONING_REQUEST_CONFIG = _kueue("provisioningrequestconfigs", "ProvisioningRequestConfig")
MULTI_KUEUE_CLUSTER = _kueue("multikueueclusters", "MultiKueueCluster")
MULTI_KUEUE_CONFIG = _kueue("multikueueconfigs", "MultiKueueConfig")

NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
POD = Resource("", "v1", "pods", "Pod", namespaced=True)
POD_TEMPLATE = Resource("", "v1", "podtemplates", "PodTemplate", namespaced=True)
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRET = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICE = Resource("", "v1", "services", "Service", namespaced=True)
LIMIT_RANGE = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
CORE_EVENT = Resource("", "v1", "events", "Event", namespaced=True)
EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASS = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
RESOURCE_CLAIM_TEMPLATE = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
RESOURCE_CLAIM = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
DEVICE_CLASS = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_SLICE = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)

JOB = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CRON_JOB = Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
REPLICATION_CONTROLLER = Resource("", "v1", "replicationcontrollers", "ReplicationController", namespaced=True)
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)

RAY_CLUSTER = Resource("ray.io", "v1", "rayclusters", "RayCluster", namespaced=True)
RAY_JOB = Resource("ray.io", "v1", "rayjobs", "RayJob", namespaced=True)
RAY_SERVICE = Resource("ray.io", "v1", "rayservices", "RayService", namespaced=True)
JOB_SET = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True)
LEADER_WORKER_SET = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", namespaced=True)
TRAIN_JOB = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", namespaced=True)
TRAINING_RUNTIME = Resource("trainer.kubeflow.org", "v1alpha1", "trainingruntimes", "TrainingRuntime", namespaced=True)
CLUSTER_TRAINING_RUNTIME = Resource(
    "trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
APP_WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper", namespaced=True)
SPARK_APPLICATION = Resource(
    "sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication", namespaced=True
)
PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", namespaced=True
)
MUTATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
NODE_POOL = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLAIM = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
