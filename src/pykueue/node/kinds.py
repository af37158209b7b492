"""Addresses of the kinds that the machine room reads and writes."""

from pykueue.api.scheme import Resource

POD = Resource("", "v1", "pods", "Pod", namespaced=True)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRET = Resource("", "v1", "secrets", "Secret", namespaced=True)
SERVICE = Resource("", "v1", "services", "Service", namespaced=True)
JOB = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CRON_JOB = Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
RAY_CLUSTER = Resource("ray.io", "v1", "rayclusters", "RayCluster", namespaced=True)
RAY_JOB = Resource("ray.io", "v1", "rayjobs", "RayJob", namespaced=True)
RAY_SERVICE = Resource("ray.io", "v1", "rayservices", "RayService", namespaced=True)
JOB_SET = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", namespaced=True)
LEADER_WORKER_SET = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", namespaced=True)
TRAIN_JOB = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", namespaced=True)
NODE_POOL = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", namespaced=True
)
RESOURCE_FLAVOR = Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
EVENT = Resource("", "v1", "events", "Event", namespaced=True)
POD_TEMPLATE = Resource("", "v1", "podtemplates", "PodTemplate", namespaced=True)
