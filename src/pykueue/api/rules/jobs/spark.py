"""SparkApplication: a driver and executors, whose pods are described by fields and, if given, templates."""

from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, workload_update
from pykueue.api.rules.jobs import frameworks, generic, management, topology
from pykueue.api.rules.jobs.topology import Template
from pykueue.api.scheme import Object, Request, Verdict

FRAMEWORK = frameworks.SPARK_APPLICATION
CLUSTER_MODE_ONLY = "only Cluster mode is supported for a kueue managed job"
ELASTIC_ONLY = (
    "a kueue managed job can use dynamicAllocation only when the ElasticJobsViaWorkloadSlices feature gate is on and the "
    "job is an elastic job"
)


def default(request: Request) -> list[str]:
    if request.operation == "CREATE":
        generic.default(request, FRAMEWORK)
    return []


def validate(request: Request) -> Verdict:
    old, found = request.old, list[FieldError]()
    if old is not None:
        if not management.is_or_was_managed(request, old):
            return Verdict()
        is_suspended = FRAMEWORK.is_suspended(request.object)
        found += generic.check_update(request, FRAMEWORK, old, is_suspended=is_suspended)
    if management.is_managed(request):
        found += _check_managed(request)
    found += generic.check_create(request, FRAMEWORK)
    found += topology.check(request, [_template(request.object, role) for role in ("driver", "executor")])
    return Verdict(denied=tuple(found), webhook=FRAMEWORK.webhook)


def _check_managed(request: Request) -> Iterator[FieldError]:
    spec = reading.mapping(request.object.get("spec"))
    if spec.get("mode") != "cluster":
        yield faults.invalid("spec.mode", spec.get("mode", ""), CLUSTER_MODE_ONLY)
    is_elastic = workload_update.is_elastic(request, request.object)
    if reading.at(spec, "dynamicAllocation", "enabled") is True and not is_elastic:
        yield faults.invalid("spec.dynamicAllocation.enabled", value=True, detail=ELASTIC_ONLY)


def _template(application: Object, role: str) -> Template:
    """An annotation of the role itself wins over one of its template."""
    fields = reading.mapping(reading.at(application, "spec", role))
    annotations = reading.annotations(reading.mapping(fields.get("template")))
    count = 1 if role == "driver" else reading.integer(fields.get("instances"))
    own = reading.text_map(fields.get("annotations"))
    return Template(path=f"spec.{role}", annotations=annotations | own, count=count)
