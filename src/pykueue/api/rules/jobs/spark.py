"""SparkApplication: a driver and executors, described by fields and optional pod templates."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, workload_update
from pykueue.api.rules.jobs import generic, job_kinds, management, topology
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import AdmissionRequest, Object, ValidationResult

JOB_KIND = job_kinds.SPARK_APPLICATION
CLUSTER_MODE_ONLY = "only Cluster mode is supported for a kueue managed job"
ELASTIC_ONLY = (
    "a kueue managed job can use dynamicAllocation only when the ElasticJobsViaWorkloadSlices feature gate is on and the "
    "job is an elastic job"
)


def default(request: AdmissionRequest) -> None:
    if request.operation == "CREATE":
        generic.default(request, JOB_KIND)


def validate(request: AdmissionRequest) -> ValidationResult:
    old, field_errors = request.old, list[FieldError]()
    if old is not None:
        if not management.is_or_was_managed(request, old):
            return ValidationResult()
        is_suspended = JOB_KIND.is_suspended(request.object)
        field_errors += generic.check_update(request, JOB_KIND, old, is_suspended=is_suspended)
    if management.is_managed(request):
        field_errors += _check_managed(request)
    field_errors += generic.check_create(request, JOB_KIND)
    field_errors += topology.check(request, [_template(request.object, role) for role in ("driver", "executor")])
    return ValidationResult(denied=tuple(field_errors), webhook=JOB_KIND.webhook)


def _check_managed(request: AdmissionRequest) -> Iterator[FieldError]:
    spec = reading.mapping(request.object.get("spec"))
    if spec.get("mode") != "cluster":
        yield faults.invalid("spec.mode", spec.get("mode", ""), CLUSTER_MODE_ONLY)
    is_elastic = workload_update.is_elastic(request, request.object)
    if reading.at(spec, "dynamicAllocation", "enabled") is True and not is_elastic:
        yield faults.invalid("spec.dynamicAllocation.enabled", value=True, detail=ELASTIC_ONLY)


def _template(application: Object, role: str) -> Template:
    """The pod set of a role; an annotation of the role overrides one of its pod template."""
    fields = reading.mapping(reading.at(application, "spec", role))
    annotations = reading.annotations(reading.mapping(fields.get("template")))
    count = 1 if role == "driver" else reading.integer(fields.get("instances"))
    own = reading.text_map(fields.get("annotations"))
    return Template(path=f"spec.{role}", annotations=annotations | own, count=count)
