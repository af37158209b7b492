"""Which admission rules each kind obeys. `api.registry` reads this table.

Kubernetes' own defaults come first and Kueue's webhooks after them, as in a cluster. The selectors
of Jobs and pods come last, because the API server sets them after all admission. The rules of a
job kind are skipped while its integration is disabled.
"""

from collections.abc import Mapping

import msgspec

from pykueue.api.labels import QUEUE_NAME
from pykueue.api.rules import cluster_queue, operators, quota, reading, resource_flavor, unsupported, workload
from pykueue.api.rules.builtin import (
    admission_matching,
    admission_policies,
    objects,
    owners,
    policies,
    rbac,
    resource_quota,
    webhook_configurations,
)
from pykueue.api.rules.builtin import job as builtin_job
from pykueue.api.rules.builtin import pod as builtin_pod
from pykueue.api.rules.jobs import (
    batch_job,
    custom,
    job_kinds,
    leader_worker_set,
    pod,
    ray,
    replicas,
    serving,
    spark,
    train_job,
)
from pykueue.api.rules.jobs.job_kinds import JobKind
from pykueue.api.scheme import AdmissionRequest, Defaulter, Reader, ValidationResult, Validator

_KUEUE = "kueue.x-k8s.io"


def _default_nothing(_request: AdmissionRequest) -> None:
    return


def _accept(_request: AdmissionRequest) -> ValidationResult:
    return ValidationResult()


class AdmissionRules(msgspec.Struct, frozen=True, kw_only=True):
    reader: Reader | None = None
    defaulter: Defaulter = _default_nothing
    validator: Validator = _accept


def _one_after_another(*defaulters: Defaulter) -> Defaulter:
    def default(request: AdmissionRequest) -> None:
        for defaulter in defaulters:
            defaulter(request)

    return default


def _all_of(*validators: Validator) -> Validator:
    def validate(request: AdmissionRequest) -> ValidationResult:
        results = [validator(request) for validator in validators]
        return ValidationResult(
            invalid=tuple(error for result in results for error in result.invalid),
            denied=tuple(error for result in results for error in result.denied),
            warnings=tuple(warning for result in results for warning in result.warnings),
            webhook=next((result.webhook for result in results if result.webhook), ""),
        )

    return validate


def _if_enabled(job_kind: JobKind, defaulter: Defaulter, validator: Validator) -> AdmissionRules:
    """Kueue's rules for jobs check writes of whole objects only, not of subresources."""

    def is_enabled(request: AdmissionRequest) -> bool:
        return job_kind.name in request.settings.frameworks

    def applies(request: AdmissionRequest) -> bool:
        return is_enabled(request) and not request.subresource

    def default(request: AdmissionRequest) -> None:
        if applies(request):
            defaulter(request)

    def validate(request: AdmissionRequest) -> ValidationResult:
        if applies(request):
            return validator(request)
        warnings = () if is_enabled(request) else _warnings_of_disabled(job_kind, request)
        return ValidationResult(warnings=warnings)

    return AdmissionRules(defaulter=default, validator=validate)


def _warnings_of_disabled(job_kind: JobKind, request: AdmissionRequest) -> tuple[str, ...]:
    """A user who labels a job of a disabled integration learns that nobody queues it."""
    metadata = reading.mapping(request.object.get("metadata"))
    is_by_user = request.operation == "CREATE" and not metadata.get("ownerReferences")
    if not is_by_user or not request.settings.frameworks or not reading.at(metadata, "labels", QUEUE_NAME):
        return ()
    warning = (
        f'metadata.labels[{QUEUE_NAME}]: has no effect, because the integration "{job_kind.name}" is not enabled; '
        "add it to integrations.frameworks of the Configuration"
    )
    return (warning,)


def _rules_of_class(
    rules: "ray.RayRules | replicas.ReplicatedJob", defaulter: Defaulter | None = None
) -> AdmissionRules:
    return _if_enabled(rules.job_kind, defaulter or rules.default, rules.validate)


WEBHOOKS: Mapping[tuple[str, str], AdmissionRules] = {
    (_KUEUE, "ClusterQueue"): AdmissionRules(
        reader=quota.set_covered_resources,
        defaulter=cluster_queue.default,
        validator=cluster_queue.validate,
    ),
    (_KUEUE, "Cohort"): AdmissionRules(reader=quota.set_covered_resources, validator=quota.validate_cohort),
    (_KUEUE, "ResourceFlavor"): AdmissionRules(
        reader=resource_flavor.read_node_selector,
        defaulter=resource_flavor.default,
        validator=resource_flavor.validate,
    ),
    (_KUEUE, "Workload"): AdmissionRules(defaulter=workload.default, validator=workload.validate),
    ("batch", "Job"): _if_enabled(job_kinds.BATCH_JOB, batch_job.default, batch_job.validate),
    ("", "Pod"): _if_enabled(job_kinds.POD, pod.default, pod.validate),
    ("apps", "Deployment"): _if_enabled(job_kinds.DEPLOYMENT, serving.default_deployment, serving.validate_deployment),
    ("apps", "StatefulSet"): _if_enabled(
        job_kinds.STATEFUL_SET, serving.default_stateful_set, serving.validate_stateful_set
    ),
    ("kubeflow.org", "PyTorchJob"): _rules_of_class(replicas.PYTORCH_JOB),
    ("kubeflow.org", "TFJob"): _rules_of_class(replicas.TF_JOB),
    ("kubeflow.org", "XGBoostJob"): _rules_of_class(replicas.XGBOOST_JOB),
    ("kubeflow.org", "PaddleJob"): _rules_of_class(replicas.PADDLE_JOB),
    ("kubeflow.org", "JAXJob"): _rules_of_class(replicas.JAX_JOB),
    ("kubeflow.org", "MPIJob"): _rules_of_class(replicas.MPI_JOB, replicas.default_mpi_job),
    ("jobset.x-k8s.io", "JobSet"): _rules_of_class(replicas.JOB_SET),
    ("workload.codeflare.dev", "AppWrapper"): _rules_of_class(replicas.APP_WRAPPER),
    ("trainer.kubeflow.org", "TrainJob"): _if_enabled(job_kinds.TRAIN_JOB, train_job.default, train_job.validate),
    ("sparkoperator.k8s.io", "SparkApplication"): _if_enabled(
        job_kinds.SPARK_APPLICATION, spark.default, spark.validate
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _if_enabled(
        job_kinds.LEADER_WORKER_SET, leader_worker_set.default, leader_worker_set.validate
    ),
    ("ray.io", "RayCluster"): _rules_of_class(ray.RAY_CLUSTER),
    ("ray.io", "RayJob"): _rules_of_class(ray.RAY_JOB),
    ("ray.io", "RayService"): _rules_of_class(ray.RAY_SERVICE),
}
"""Kueue's webhooks by (group, kind).

All versions of a kind have the same rules, which see the storage version.
"""


def _with_builtin(builtin: Defaulter, kueue: AdmissionRules) -> AdmissionRules:
    return AdmissionRules(
        defaulter=_one_after_another(builtin, kueue.defaulter),
        validator=_all_of(owners.validate_replicated, kueue.validator),
    )


_WEBHOOK_CONFIGURATION = AdmissionRules(
    defaulter=webhook_configurations.default_webhooks, validator=webhook_configurations.validate_webhooks
)
_ADMISSION_REGISTRATION: Mapping[tuple[str, str], AdmissionRules] = {
    (admission_matching.GROUP, "ValidatingAdmissionPolicy"): AdmissionRules(
        defaulter=admission_policies.default_policy, validator=admission_policies.validate_policy
    ),
    (admission_matching.GROUP, "ValidatingAdmissionPolicyBinding"): AdmissionRules(
        defaulter=admission_policies.default_binding, validator=admission_policies.validate_binding
    ),
    (admission_matching.GROUP, "MutatingAdmissionPolicy"): AdmissionRules(
        defaulter=admission_policies.default_mutating_policy, validator=admission_policies.validate_mutating_policy
    ),
    (admission_matching.GROUP, "MutatingAdmissionPolicyBinding"): AdmissionRules(
        defaulter=admission_policies.default_binding, validator=admission_policies.validate_mutating_binding
    ),
    (admission_matching.GROUP, "ValidatingWebhookConfiguration"): _WEBHOOK_CONFIGURATION,
    (admission_matching.GROUP, "MutatingWebhookConfiguration"): _WEBHOOK_CONFIGURATION,
}
_BATCH_JOB, _POD = WEBHOOKS["batch", "Job"], WEBHOOKS["", "Pod"]
_JOB_SET = WEBHOOKS["jobset.x-k8s.io", "JobSet"]
_CLUSTER_QUEUE = WEBHOOKS[_KUEUE, "ClusterQueue"]
RULES: Mapping[tuple[str, str], AdmissionRules] = {
    **WEBHOOKS,
    **_ADMISSION_REGISTRATION,
    (_KUEUE, "ClusterQueue"): AdmissionRules(
        reader=_CLUSTER_QUEUE.reader,
        defaulter=_CLUSTER_QUEUE.defaulter,
        validator=_all_of(_CLUSTER_QUEUE.validator, cluster_queue.warn_of_gate),
    ),
    ("batch", "Job"): AdmissionRules(
        defaulter=_one_after_another(builtin_job.default, _BATCH_JOB.defaulter, builtin_job.generate_selector),
        validator=_all_of(builtin_job.validate, _BATCH_JOB.validator),
    ),
    ("batch", "CronJob"): AdmissionRules(defaulter=builtin_job.default_cron_job, validator=owners.validate_cron_job),
    ("", "Pod"): AdmissionRules(
        defaulter=_one_after_another(builtin_pod.default, _POD.defaulter, builtin_pod.select_by_own_labels),
        validator=_all_of(builtin_pod.validate, _POD.validator),
    ),
    ("apps", "Deployment"): _with_builtin(objects.deployment, WEBHOOKS["apps", "Deployment"]),
    ("apps", "StatefulSet"): _with_builtin(objects.stateful_set, WEBHOOKS["apps", "StatefulSet"]),
    ("apps", "ReplicaSet"): AdmissionRules(defaulter=objects.replica_set, validator=owners.validate_replicated),
    ("", "ReplicationController"): AdmissionRules(
        defaulter=objects.replication_controller, validator=owners.validate_replication_controller
    ),
    ("apps", "DaemonSet"): AdmissionRules(defaulter=objects.daemon_set, validator=owners.validate_replicated),
    ("jobset.x-k8s.io", "JobSet"): AdmissionRules(
        defaulter=_one_after_another(operators.default_job_set, _JOB_SET.defaulter),
        validator=_all_of(operators.validate_job_set, _JOB_SET.validator),
    ),
    ("", "Node"): AdmissionRules(defaulter=objects.node),
    ("", "PersistentVolumeClaim"): AdmissionRules(defaulter=objects.persistent_volume_claim),
    ("", "ResourceQuota"): AdmissionRules(defaulter=objects.resource_quota, validator=resource_quota.validate),
    ("", "Namespace"): AdmissionRules(defaulter=objects.namespace),
    ("", "ConfigMap"): AdmissionRules(validator=_all_of(owners.validate_config_map, unsupported.warn_of_configuration)),
    ("", "Secret"): AdmissionRules(defaulter=objects.secret, validator=owners.validate_secret),
    ("", "Service"): AdmissionRules(defaulter=objects.service, validator=owners.validate_service),
    ("", "LimitRange"): AdmissionRules(defaulter=objects.limit_range),
    ("policy", "PodDisruptionBudget"): AdmissionRules(validator=policies.validate_disruption_budget),
    ("autoscaling", "HorizontalPodAutoscaler"): AdmissionRules(
        defaulter=policies.default_autoscaler, validator=policies.validate_autoscaler
    ),
    ("storage.k8s.io", "StorageClass"): AdmissionRules(
        defaulter=policies.default_storage_class, validator=policies.validate_storage_class
    ),
    ("scheduling.k8s.io", "PriorityClass"): AdmissionRules(defaulter=objects.priority_class),
    (rbac.GROUP, "Role"): AdmissionRules(validator=rbac.validate_role),
    (rbac.GROUP, "ClusterRole"): AdmissionRules(validator=rbac.validate_cluster_role),
    (rbac.GROUP, "RoleBinding"): AdmissionRules(defaulter=rbac.default_binding, validator=rbac.validate_role_binding),
    (rbac.GROUP, "ClusterRoleBinding"): AdmissionRules(
        defaulter=rbac.default_binding, validator=rbac.validate_cluster_role_binding
    ),
}
"""Webhooks of Kueue and of operators, and Kubernetes' rules, for the embedded API server."""


_CUSTOM_JOB_RULES = AdmissionRules(defaulter=custom.default, validator=custom.validate)


def rules_of(group: str, kind: str) -> AdmissionRules:
    """All rules of a kind; a user's own kind has the rules of custom jobs."""
    return RULES.get((group, kind), _CUSTOM_JOB_RULES)


def webhook_of(group: str, kind: str) -> AdmissionRules:
    """The rules of Kueue's webhooks alone, for an API server that has those of Kubernetes."""
    return WEBHOOKS.get((group, kind), _CUSTOM_JOB_RULES)
