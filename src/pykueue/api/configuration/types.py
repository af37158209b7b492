"""The Configuration as one frozen value. Field names and defaults are Kueue's (v1beta2).

Durations are written as in Go (`30m`) and stored in nanoseconds. Extensions of ours are marked.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from pykueue.api import feature_gates
from pykueue.api.meta import Int32, LabelSelector, Resources
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Schema, Settings
from pykueue.api.structural import ABSENT, Part, about

SECOND_NS = 10**9
MINUTE_NS = 60 * SECOND_NS
DURATION_FORMAT = "go-duration"


def _duration_schema() -> Schema:
    return {"type": "string", "format": DURATION_FORMAT}


Duration = Annotated[int, about(schema=_duration_schema, default=ABSENT)]
"""Nanoseconds."""


def _named(name: str, default: int | None) -> Any:
    return msgspec.field(default=default, name=name)


class Webhook(Part):
    """The server of the admission webhooks."""

    port: int = 9443
    host: str = ""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - Kueue's default


class LeaderElection(Part):
    """Leader election among the replicas of the controller."""

    leader_elect: bool = True
    lease_duration_ns: Duration = _named("leaseDuration", 15 * SECOND_NS)
    renew_deadline_ns: Duration = _named("renewDeadline", 10 * SECOND_NS)
    retry_period_ns: Duration = _named("retryPeriod", 2 * SECOND_NS)
    resource_lock: str = "leases"
    resource_name: str = "c1f6bfd2.kueue.x-k8s.io"
    resource_namespace: str = ""


class CustomLabel(Part):
    """An additional label of Kueue's metrics, from a label or annotation of the measured one."""

    name: str
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Literal["ClusterQueue", "Cohort", "LocalQueue", "Workload"] = "ClusterQueue"
    tracked_values: tuple[str, ...] = ()


class LocalQueueMetrics(Part):
    """Metrics of LocalQueues."""

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Part):
    """The metrics and their endpoint."""

    bind_address: str = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[CustomLabel, ...] = ()
    local_queue_metrics: Annotated[LocalQueueMetrics, about(default=ABSENT)] = LocalQueueMetrics(enable=True)


class Health(Part):
    """The health probes of the controller."""

    health_probe_bind_address: str = ":8081"
    readiness_endpoint_name: str = "readyz"
    liveness_endpoint_name: str = "healthz"


class Controller(Part):
    """Concurrency of the controllers."""

    group_kind_concurrency: dict[str, int] = msgspec.field(default_factory=dict)
    cache_sync_timeout: int | None = None
    """Nanoseconds, written as a number."""


class Tls(Part):
    """TLS options of our servers."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[Int32, ...] = ()


class InternalCertManagement(Part):
    """Certificates that the controller creates and rotates."""

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105 - the name of a Secret


class RequeuingStrategy(Part):
    """How a workload is requeued after its pods were not ready in time."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Part):
    """Whether a workload loses its quota if its pods are not all ready in time."""

    timeout_ns: Duration = _named("timeout", 30 * MINUTE_NS)
    block_admission: bool = False
    requeuing_strategy: Annotated[RequeuingStrategy, about(default=ABSENT)] = RequeuingStrategy()
    recovery_timeout_ns: Duration | None = _named("recoveryTimeout", None)


class ClientConnection(Part):
    """Rate limits of requests to the API server."""

    qps: float = 300.0
    burst: Int32 = 500


class RayJobOptions(Part):
    """Extension: RayJobs."""

    count_default_submitter: Annotated[
        bool, about("Whether the submitter pod that a RayJob does not spell out counts against quota.")
    ] = False


class CustomPodSet(Part):
    """Extension: the path of a pod template in a custom kind, and of its number of pods."""

    template: Annotated[str, about("Path of the pod template, such as spec.template.")]
    name: str = "main"
    count: Annotated[str, about("Path of the number of pods; without it, or without a value there, 1.")] = ""


class FinishedConditions(Part):
    """Extension: the condition types by which a custom kind reports that it has finished."""

    succeeded: str = "Succeeded"
    failed: str = "Failed"


class CustomFramework(Part):
    """Extension: a job kind of your own, managed without code. Paths are dotted field names."""

    kind: str
    pod_sets: tuple[CustomPodSet, ...]
    group: str = ""
    version: str = "v1"
    plural: Annotated[str, about("Name in URLs; by default the kind in lower case with an s.")] = ""
    suspend: Annotated[str, about("Path of the field that keeps the job from starting.")] = "spec.suspend"
    finished: Annotated[FinishedConditions, about(default=ABSENT)] = FinishedConditions()
    ready: Annotated[str, about("Type of the condition that says that all pods are ready.")] = "Running"
    active: Annotated[str, about("Path of the number of pods that still hold quota; without it, none do.")] = ""

    @property
    def plural_name(self) -> str:
        return self.plural or f"{self.kind.lower()}s"


class Integrations(Part):
    """The job kinds that are managed."""

    frameworks: tuple[str, ...] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()
    ray_job: Annotated[RayJobOptions, about(default=ABSENT)] = RayJobOptions()
    custom: tuple[CustomFramework, ...] = ()


class ExternalFramework(Part):
    name: str


class IncrementalDispatcher(Part):
    step_size: Int32 = 3


class AccessProvider(Part):
    """How to get credentials for the clusters of one provider."""

    name: str = ""
    exec_config: dict[str, Any] = msgspec.field(default_factory=dict)


class ClusterProfile(Part):
    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


class MultiKueue(Part):
    """MultiKueue: dispatch to other clusters."""

    gc_interval_ns: Duration = _named("gcInterval", MINUTE_NS)
    origin: str = "multikueue"
    worker_lost_timeout_ns: Duration = _named("workerLostTimeout", 15 * MINUTE_NS)
    dispatcher_name: str = ALL_AT_ONCE
    external_frameworks: tuple[ExternalFramework, ...] = ()
    cluster_profile: ClusterProfile | None = None
    incremental_dispatcher_config: IncrementalDispatcher | None = None


class FairSharing(Part):
    """Fair sharing, which is enabled if this section is present."""

    preemption_strategies: tuple[str, ...] = ()


class AdmissionFairSharing(Part):
    """Admission fair sharing between LocalQueues, which is enabled if this section is present."""

    usage_half_life_time_ns: Annotated[Duration, about(required=False)] = _named("usageHalfLifeTime", 0)
    usage_sampling_interval_ns: Duration = _named("usageSamplingInterval", 5 * MINUTE_NS)
    resource_weights: dict[str, float] = msgspec.field(default_factory=dict)


class Transformation(Part):
    """Counts the requests of one resource as other resources."""

    input: str
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: Resources = msgspec.field(default_factory=dict)


class DeviceSource(Part):
    name: str = ""
    driver: str = ""
    device_selector: dict[str, Any] = msgspec.field(default_factory=dict)


class DeviceClassSource(Part):
    counter: DeviceSource | None = None
    capacity: DeviceSource | None = None


class DeviceClassMapping(Part):
    """Counts devices of these classes as one resource."""

    name: str
    device_class_names: tuple[str, ...] = ()
    sources: tuple[DeviceClassSource, ...] = ()


class ResourcesOptions(Part):
    """How resource requests are counted."""

    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Part):
    after_finished_ns: Duration | None = _named("afterFinished", None)
    after_deactivated_by_kueue_ns: Duration | None = _named("afterDeactivatedByKueue", None)


class ObjectRetentionPolicies(Part):
    """When finished objects are deleted; never without a value."""

    workloads: Annotated[WorkloadRetention, about(default=ABSENT)] = WorkloadRetention()


class VisibilityServer(Part):
    bind_address: str = "0.0.0.0"  # noqa: S104 - Kueue's default
    bind_port: Int32 = 8082


class Configuration(Part):
    """The Configuration of the controller."""

    namespace: str = "kueue-system"
    webhook: Annotated[Webhook, about(default=ABSENT)] = Webhook()
    leader_election: Annotated[LeaderElection, about(default=ABSENT)] = LeaderElection()
    metrics: Annotated[Metrics, about(default=ABSENT)] = Metrics()
    health: Annotated[Health, about(default=ABSENT)] = Health()
    pprof_bind_address: str = ""
    controller: Annotated[Controller, about(default=ABSENT)] = Controller()
    tls: Tls | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: dict[str, Any] | None = None
    internal_cert_management: Annotated[InternalCertManagement, about(default=ABSENT)] = InternalCertManagement()
    wait_for_pods_ready: Annotated[WaitForPodsReady, about(default=ABSENT)] = WaitForPodsReady()
    client_connection: Annotated[ClientConnection, about(default=ABSENT)] = ClientConnection()
    integrations: Annotated[Integrations, about(default=ABSENT)] = Integrations()
    multi_kueue: Annotated[MultiKueue, about(default=ABSENT)] = MultiKueue()
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Annotated[ResourcesOptions, about(default=ABSENT)] = ResourcesOptions()
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    object_retention_policies: Annotated[ObjectRetentionPolicies, about(default=ABSENT)] = ObjectRetentionPolicies()
    visibility_server: Annotated[VisibilityServer, about(default=ABSENT)] = VisibilityServer()
    preemption_loop_guard: Annotated[
        bool, about("Extension: two queues that preempt each other in turn are stopped.")
    ] = False

    def is_on(self, gate: str) -> bool:
        return feature_gates.is_enabled(self.feature_gates, gate)

    @property
    def tls_options(self) -> Tls | None:
        return self.tls if self.is_on("TLSOptions") else None

    @property
    def waits_for_pods_ready(self) -> bool:
        return not self.is_on("DisableWaitForPodsReady")

    @property
    def enabled_frameworks(self) -> frozenset[str]:
        """The listed frameworks, and pods if a listed kind is managed through its pods."""
        listed = frozenset(self.integrations.frameworks)
        needs_pods = any(job_kinds.JOB_KINDS[name].implies_pods for name in listed)
        return listed | {job_kinds.POD.name} if needs_pods else listed

    @property
    def namespace_selector(self) -> Mapping[str, Any]:
        """The namespaces whose jobs are managed: by default all but kube-system and our own."""
        if self.managed_jobs_namespace_selector is not None:
            return self.managed_jobs_namespace_selector
        system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", self.namespace]}
        return {"matchExpressions": [system]}

    def settings(self) -> Settings:
        """The settings that admission reads."""
        return Settings(
            frameworks=self.enabled_frameworks,
            manage_jobs_without_queue_name=self.manage_jobs_without_queue_name,
            managed_jobs_namespace_selector=self.namespace_selector,
            feature_gates=self.feature_gates,
            custom_jobs={
                (custom.group, custom.kind): tuple(custom.suspend.split(".")) for custom in self.integrations.custom
            },
            external_jobs=frozenset(map(job_kinds.external, self.integrations.external_frameworks)),
            custom_plurals={(custom.group, custom.kind): custom.plural_name for custom in self.integrations.custom},
        )
