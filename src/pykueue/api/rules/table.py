"""Which kind obeys which rules. `api.registry` reads this when it registers kinds.

Kubernetes' own defaults come first and Kueue's webhooks after them, as in a cluster; a Job's selector comes last, because
the API server makes it after all admission. The rules of a job kind are skipped while its integration is off.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykueue.api.rules import cluster_queue, cohort, quota, resource_flavor, workload
from pykueue.api.rules.builtin import job as builtin_job
from pykueue.api.rules.builtin import objects, owners
from pykueue.api.rules.builtin import pod as builtin_pod
from pykueue.api.rules.jobs import (
    batch_job,
    custom,
    frameworks,
    leader_worker_set,
    pod,
    ray,
    replicas,
    serving,
    spark,
    train_job,
)
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.api.scheme import Defaulter, Reader, Request, Validator, Verdict

_KUEUE = "kueue.x-k8s.io"


def _leave(_request: Request) -> list[str]:
    return []


def _accept(_request: Request) -> Verdict:
    return Verdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    reader: Reader | None = None
    defaulter: Defaulter = _leave
    validator: Validator = _accept


def _in_order(*defaulters: Defaulter) -> Defaulter:
    def default(request: Request) -> list[str]:
        return [warning for defaulter in defaulters for warning in defaulter(request)]

    return default


def _together(*validators: Validator) -> Validator:
    def validate(request: Request) -> Verdict:
        verdicts = [validator(request) for validator in validators]
        return Verdict(
            invalid=tuple(fault for verdict in verdicts for fault in verdict.invalid),
            denied=tuple(fault for verdict in verdicts for fault in verdict.denied),
            warnings=tuple(warning for verdict in verdicts for warning in verdict.warnings),
            webhook=next((verdict.webhook for verdict in verdicts if verdict.webhook), ""),
        )

    return validate


def _if_enabled(framework: Framework, defaulter: Defaulter, validator: Validator) -> Rules:
    """Kueue's rules for jobs look at whole objects only: writes of a status or a scale pass."""

    def applies(request: Request) -> bool:
        return framework.name in request.settings.frameworks and not request.subresource

    def default(request: Request) -> list[str]:
        return defaulter(request) if applies(request) else []

    def validate(request: Request) -> Verdict:
        return validator(request) if applies(request) else Verdict()

    return Rules(defaulter=default, validator=validate)


def _of(
    rules: "ray.RayRules | replicas.ReplicatedJob", defaulter: Callable[[Request], list[str]] | None = None
) -> Rules:
    return _if_enabled(rules.framework, defaulter or rules.default, rules.validate)


WEBHOOKS: Mapping[tuple[str, str], Rules] = {
    (_KUEUE, "ClusterQueue"): Rules(
        reader=quota.take_covered_resources_from_flavors,
        defaulter=cluster_queue.default,
        validator=cluster_queue.validate,
    ),
    (_KUEUE, "Cohort"): Rules(reader=quota.take_covered_resources_from_flavors, validator=cohort.validate),
    (_KUEUE, "ResourceFlavor"): Rules(
        reader=resource_flavor.read_node_selector,
        defaulter=resource_flavor.default,
        validator=resource_flavor.validate,
    ),
    (_KUEUE, "Workload"): Rules(defaulter=workload.default, validator=workload.validate),
    ("batch", "Job"): _if_enabled(frameworks.BATCH_JOB, batch_job.default, batch_job.validate),
    ("", "Pod"): _if_enabled(frameworks.POD, pod.default, pod.validate),
    ("apps", "Deployment"): _if_enabled(frameworks.DEPLOYMENT, serving.default_deployment, serving.validate_deployment),
    ("apps", "StatefulSet"): _if_enabled(
        frameworks.STATEFUL_SET, serving.default_stateful_set, serving.validate_stateful_set
    ),
    ("kubeflow.org", "PyTorchJob"): _of(replicas.PYTORCH_JOB),
    ("kubeflow.org", "TFJob"): _of(replicas.TF_JOB),
    ("kubeflow.org", "XGBoostJob"): _of(replicas.XGBOOST_JOB),
    ("kubeflow.org", "PaddleJob"): _of(replicas.PADDLE_JOB),
    ("kubeflow.org", "JAXJob"): _of(replicas.JAX_JOB),
    ("kubeflow.org", "MPIJob"): _of(replicas.MPI_JOB, replicas.default_mpi_job),
    ("jobset.x-k8s.io", "JobSet"): _of(replicas.JOB_SET),
    ("workload.codeflare.dev", "AppWrapper"): _of(replicas.APP_WRAPPER),
    ("trainer.kubeflow.org", "TrainJob"): _if_enabled(frameworks.TRAIN_JOB, train_job.default, train_job.validate),
    ("sparkoperator.k8s.io", "SparkApplication"): _if_enabled(
        frameworks.SPARK_APPLICATION, spark.default, spark.validate
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _if_enabled(
        frameworks.LEADER_WORKER_SET, leader_worker_set.default, leader_worker_set.validate
    ),
    ("ray.io", "RayCluster"): _of(ray.RAY_CLUSTER),
    ("ray.io", "RayJob"): _of(ray.RAY_JOB),
    ("ray.io", "RayService"): _of(ray.RAY_SERVICE),
}
"""Kueue's own, by (group, kind): every version of a kind has the same rules, which see the storage version."""


def _after(builtin: Defaulter, kueue: Rules) -> Rules:
    return Rules(
        defaulter=_in_order(builtin, kueue.defaulter),
        validator=_together(owners.validate_replicated, kueue.validator),
    )


_BATCH_JOB, _POD = WEBHOOKS["batch", "Job"], WEBHOOKS["", "Pod"]
RULES: Mapping[tuple[str, str], Rules] = {
    **WEBHOOKS,
    ("batch", "Job"): Rules(
        defaulter=_in_order(builtin_job.default, _BATCH_JOB.defaulter, builtin_job.generate_selector),
        validator=_together(builtin_job.validate, _BATCH_JOB.validator),
    ),
    ("batch", "CronJob"): Rules(defaulter=builtin_job.default_cron_job, validator=owners.validate_cron_job),
    ("", "Pod"): Rules(
        defaulter=_in_order(builtin_pod.default, _POD.defaulter),
        validator=_together(builtin_pod.validate, _POD.validator),
    ),
    ("apps", "Deployment"): _after(objects.deployment, WEBHOOKS["apps", "Deployment"]),
    ("apps", "StatefulSet"): _after(objects.stateful_set, WEBHOOKS["apps", "StatefulSet"]),
    ("apps", "ReplicaSet"): Rules(defaulter=objects.replica_set, validator=owners.validate_replicated),
    ("apps", "DaemonSet"): Rules(defaulter=objects.daemon_set, validator=owners.validate_replicated),
    ("", "Node"): Rules(defaulter=objects.node),
    ("", "PersistentVolumeClaim"): Rules(defaulter=objects.persistent_volume_claim),
    ("", "ResourceQuota"): Rules(defaulter=objects.resource_quota),
    ("", "Namespace"): Rules(defaulter=objects.namespace),
    ("", "Secret"): Rules(defaulter=objects.secret),
    ("", "Service"): Rules(defaulter=objects.service, validator=owners.validate_service),
    ("", "LimitRange"): Rules(defaulter=objects.limit_range),
    ("scheduling.k8s.io", "PriorityClass"): Rules(defaulter=objects.priority_class),
}
"""With those of Kubernetes itself, for an API server that has none of its own."""


_OF_OTHERS = Rules(defaulter=custom.default, validator=custom.validate)


def rules_of(group: str, kind: str) -> Rules:
    """Also for a user's own kinds."""
    return RULES.get((group, kind), _OF_OTHERS)


def webhook_of(group: str, kind: str) -> Rules:
    """What Kueue's webhooks add to an API server that has Kubernetes' rules already."""
    return WEBHOOKS.get((group, kind), _OF_OTHERS)
