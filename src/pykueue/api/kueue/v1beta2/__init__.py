"""The structs of `kueue.x-k8s.io/v1beta2`, one module for each kind.

They are for reading; writes use plain objects, so that unknown fields survive.
"""

from pykueue.api.kueue.v1beta2.admission_check import AdmissionCheck
from pykueue.api.kueue.v1beta2.cluster_queue import ClusterQueue
from pykueue.api.kueue.v1beta2.cohort import Cohort
from pykueue.api.kueue.v1beta2.local_queue import LocalQueue
from pykueue.api.kueue.v1beta2.multikueue import MultiKueueCluster, MultiKueueConfig
from pykueue.api.kueue.v1beta2.provisioning import ProvisioningRequestConfig
from pykueue.api.kueue.v1beta2.resource_flavor import ResourceFlavor
from pykueue.api.kueue.v1beta2.topology import Topology
from pykueue.api.kueue.v1beta2.workload import Workload
from pykueue.api.kueue.v1beta2.workload_priority_class import WorkloadPriorityClass

__all__ = [
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
]
