"""RayCluster, RayJob and RayService, which contain the same cluster specification."""

from collections.abc import Iterator

import msgspec

from pykueue.api.errors import FieldError
from pykueue.api.labels import ELASTIC_JOB
from pykueue.api.rules import faults, reading, workload_update
from pykueue.api.rules.jobs import generic, job_kinds, management, topology
from pykueue.api.rules.jobs.job_kinds import JobKind, Path
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

ELASTIC_GATE_REQUIRED = "an elastic job must have the ElasticJobSchedulingGate"
MULTI_KUEUE_AUTOSCALING = "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster"
USES_EXISTING_CLUSTER = "a kueue managed job should not use an existing cluster"
CLUSTER_REQUIRED = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
CLUSTER_OUTLIVES_JOB = "a kueue managed job should delete the cluster after finishing"
MOST_POD_SETS = 18
_HEAD = "head"
_AUTOSCALING_OF_A_CLUSTER = (
    "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the ElasticJobsViaWorkloadSlices "
    f'feature gate and set the "{ELASTIC_JOB}": "true" annotation'
)
_AUTOSCALING_OF_A_JOB = "a kueue managed job should only use autoscaling when workload slicing is enabled"


class RayRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one kind.

    `cluster` is the path of the cluster specification, `path` its name in Kueue's messages.
    """

    job_kind: JobKind
    cluster: Path
    path: str
    autoscaling: str
    gates_templates: bool
    """Whether an elastic object gets scheduling gates at creation.

    For a RayJob its RayCluster gets them.
    """

    spec_defaults: tuple[tuple[str, str], ...] = ()
    """The defaults of KubeRay's own CustomResourceDefinition."""

    def default(self, request: AdmissionRequest) -> None:
        spec = reading.mapping(request.object.get("spec"))
        for name, value in self.spec_defaults:
            spec.setdefault(name, value)
        if request.operation != "CREATE":
            return
        generic.default(request, self.job_kind)
        if self.gates_templates and workload_update.is_elastic(request, request.object):
            for _, template in self._templates(request.object):
                management.add_scheduling_gate(reading.mapping(template.get("spec")), ELASTIC_JOB)

    def validate(self, request: AdmissionRequest) -> ValidationResult:
        old = request.old
        if old is None:
            return self._result(self._check(request))
        if not management.is_or_was_managed(request, old):
            return ValidationResult()
        is_suspended = self.job_kind.is_suspended(request.object)
        changes = generic.check_update(request, self.job_kind, old, is_suspended=is_suspended)
        return self._result([*changes, *self._check(request)])

    def _result(self, field_errors: list[FieldError]) -> ValidationResult:
        return ValidationResult(denied=tuple(field_errors), webhook=self.job_kind.webhook)

    def _check(self, request: AdmissionRequest) -> list[FieldError]:
        job = request.object
        field_errors: list[FieldError] = []
        if management.is_managed(request):
            if self.job_kind is job_kinds.RAY_JOB:
                is_complete, field_errors = _check_ray_job(reading.mapping(job.get("spec")))
                if is_complete:
                    return field_errors
            field_errors += self._check_cluster(request, reading.mapping(reading.at(job, *self.cluster)))
        field_errors += generic.check_create(request, self.job_kind)
        templates = self._topology_templates(job)
        is_readable = all(template.is_readable for template in templates)
        if not is_readable and self.job_kind is job_kinds.RAY_CLUSTER:
            of_head = topology.check(request, templates[:1])
            if of_head:
                return field_errors + of_head
        return field_errors + topology.check(request, templates, groups=is_readable)

    def _check_cluster(self, request: AdmissionRequest, cluster: Object) -> Iterator[FieldError]:
        is_elastic = workload_update.is_elastic(request, request.object)
        is_autoscaled = cluster.get("enableInTreeAutoscaling") is True
        if self.job_kind is job_kinds.RAY_CLUSTER and is_elastic:
            yield from self._check_elastic(request.object, is_autoscaled=is_autoscaled)
        elif is_autoscaled and not is_elastic:
            yield faults.invalid(f"{self.path}.enableInTreeAutoscaling", value=True, detail=self.autoscaling)
        groups = reading.mappings(cluster.get("workerGroupSpecs"))
        if len(groups) + 1 > MOST_POD_SETS:
            yield faults.too_many(f"{self.path}.workerGroupSpecs", len(groups) + 1, MOST_POD_SETS)
        for index, group in enumerate(groups):
            if group.get("groupName") == _HEAD:
                path = f"{self.path}.workerGroupSpecs[{index}].groupName"
                yield faults.forbidden(path, f'"{_HEAD}" is reserved for the head group')

    def _check_elastic(self, job: Object, *, is_autoscaled: bool) -> Iterator[FieldError]:
        for path, template in self._templates(job):
            gates = reading.sequence(reading.at(template, "spec", "schedulingGates"))
            if {"name": ELASTIC_JOB} not in gates:
                here = f"{path}.spec.schedulingGates"
                yield faults.invalid(here, gates or None, ELASTIC_GATE_REQUIRED)
        if is_autoscaled and reading.at(job, "spec", "managedBy") == management.MULTI_KUEUE:
            yield faults.forbidden(f"{self.path}.enableInTreeAutoscaling", MULTI_KUEUE_AUTOSCALING)

    def _templates(self, job: Object) -> Iterator[tuple[str, Object]]:
        """The pod templates with their paths: those of the workers, then that of the head."""
        cluster = reading.mapping(reading.at(job, *self.cluster))
        for index, group in enumerate(reading.mappings(cluster.get("workerGroupSpecs"))):
            yield f"{self.path}.workerGroupSpecs[{index}].template", reading.mapping(group.get("template"))
        head = reading.mapping(reading.at(cluster, "headGroupSpec", "template"))
        yield f"{self.path}.headGroupSpec.template", head

    def _topology_templates(self, job: Object) -> list[Template]:
        cluster = reading.at(job, *self.cluster)
        if not isinstance(cluster, dict):
            return []
        head = Template.of(f"{self.path}.headGroupSpec.template", reading.at(cluster, "headGroupSpec", "template"), 1)
        workers = [
            Template.of(f"{self.path}.workerGroupSpecs[{index}].template", group.get("template"), _workers(group))
            for index, group in enumerate(reading.mappings(cluster.get("workerGroupSpecs")))
        ]
        return [head, *workers]


def _workers(group: Object) -> int:
    return reading.integer(group.get("replicas"), 1) * reading.integer(group.get("numOfHosts"), 1)


def _check_ray_job(spec: Object) -> tuple[bool, list[FieldError]]:
    """The errors of the fields outside the cluster specification.

    True means that no other check is to follow.
    """
    selector, has_cluster = spec.get("clusterSelector"), isinstance(spec.get("rayClusterSpec"), dict)
    if selector:
        return True, [faults.invalid("spec.clusterSelector", selector, USES_EXISTING_CLUSTER)] if has_cluster else []
    if not has_cluster:
        return True, [faults.required("spec.rayClusterSpec", CLUSTER_REQUIRED)]
    if spec.get("shutdownAfterJobFinishes") is True:
        return False, []
    return False, [faults.invalid("spec.shutdownAfterJobFinishes", value=False, detail=CLUSTER_OUTLIVES_JOB)]


RAY_CLUSTER = RayRules(
    job_kind=job_kinds.RAY_CLUSTER,
    cluster=("spec",),
    path="spec",
    autoscaling=_AUTOSCALING_OF_A_CLUSTER,
    gates_templates=True,
)
RAY_JOB = RayRules(
    spec_defaults=(("submissionMode", "K8sJobMode"),),
    job_kind=job_kinds.RAY_JOB,
    cluster=("spec", "rayClusterSpec"),
    path="spec.rayClusterSpec",
    autoscaling=_AUTOSCALING_OF_A_JOB,
    gates_templates=False,
)
RAY_SERVICE = RayRules(
    job_kind=job_kinds.RAY_SERVICE,
    cluster=("spec", "rayClusterConfig"),
    path="spec.rayClusterSpec",
    autoscaling=_AUTOSCALING_OF_A_JOB,
    gates_templates=True,
)
