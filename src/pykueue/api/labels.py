"""The labels, annotations, finalizers and scheduling gates of Kueue, each named once.

The constants have the names of the keys. Most keys are used both as a label and as an annotation,
so one list holds them all.
"""

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
MAX_EXEC_TIME_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT_WORKLOAD_NAME = "kueue.x-k8s.io/prebuilt-workload-name"
MANAGED = "kueue.x-k8s.io/managed"
STOPPING = "kueue.x-k8s.io/stopping"
PROVISIONING_REQUEST_PREFIX = "provreq.kueue.x-k8s.io/"

JOB_UID = "kueue.x-k8s.io/job-uid"
JOB_OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
JOB_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
JOB_COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
"""The annotation of an elastic job, and the scheduling gate of its pods."""

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
WORKLOAD_SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
WORKLOAD_SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
IS_GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"
COMPONENT_WORKLOAD_INDEX = "kueue.x-k8s.io/component-workload-index"
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of Workloads, and of flavors, checks and topologies that something refers to."""

CONCURRENT_ADMISSION_PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
CONCURRENT_ADMISSION = "kueue.x-k8s.io/concurrent-admission"
"""The preemption gate of variants."""
WORKLOAD_ALLOWED_RESOURCE_FLAVORS = "kueue.x-k8s.io/workload-allowed-resource-flavors"

ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"

POD_SET_LABEL = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME = "kueue.x-k8s.io/cluster-queue-name"
POD_SUSPENDING_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
POD_INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
POD_GROUP_FAST_ADMISSION = "kueue.x-k8s.io/pod-group-fast-admission"
POD_GROUP_SERVING = "kueue.x-k8s.io/pod-group-serving"
POD_GROUP_POD_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
POD_GROUP_POD_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"
RETRIABLE_IN_GROUP = "kueue.x-k8s.io/retriable-in-group"
ROLE_HASH = "kueue.x-k8s.io/role-hash"

POD_SET_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
POD_SET_PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
POD_SET_UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
POD_SET_SLICE_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
POD_SET_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
POD_SET_GROUP_NAME = "kueue.x-k8s.io/podset-group-name"

CREATED_BY_RUNTIME = "pykueue.dev/created-by-runtime"
"""Annotation of a Node or NodePool: the runtime whose `pykueue up` created it."""
