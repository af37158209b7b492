"""RayCluster, RayJob and RayService. In Python: `api.rules.jobs.ray`."""

from pykueue.api.labels import ELASTIC_JOB
from pykueue.api.rules.jobs import job_kinds, management, ray
from pykueue.api.scheme import Settings
from pykueue.install.validations import generic, table, topology
from pykueue.install.validations.table import NEW, Table, Validation

_SELECTS = f"{NEW}.spec.?clusterSelector.orValue({{}}) != {{}}"
_HAS_CLUSTER = f"{NEW}.spec.?rayClusterSpec.hasValue()"


def of_ray(rules: ray.RayRules, settings: Settings) -> Table:
    cluster, job_kind = f"{NEW}.?{'.?'.join(rules.cluster)}", rules.job_kind
    named = (
        *generic.variables(settings, generic.Suspension.of(job_kind)),
        topology.variable(_templates(cluster)),
    )
    general = [*generic.of_creation(job_kind, settings), *topology.validations(settings, groups=True)]
    own = _of_cluster(rules, cluster)
    if job_kind is job_kinds.RAY_JOB:
        is_complete = f"({_SELECTS} || !{_HAS_CLUSTER})"
        own = [*_of_ray_job(), *table.under(f"!{is_complete}", own)]
        general = table.under(f"!({generic.is_managed(settings)} && {is_complete})", general)
    validations = [*table.under(generic.is_managed(settings), own), *general, *generic.of_update(job_kind, settings)]
    return Table(
        variables=named,
        validations=tuple(dict.fromkeys(validations)),
        conditions=generic.unless_never_managed(settings),
    )


def _templates(cluster: str) -> str:
    head = topology.template(f"{cluster}.?headGroupSpec.?template", "1")
    worker = topology.template("g.?template", "g.?replicas.orValue(1) * g.?numOfHosts.orValue(1)")
    workers = f"{cluster}.?workerGroupSpecs.orValue([]).map(g, {worker})"
    return f"{cluster}.hasValue() ? [{head}] + {workers} : []"


def _of_cluster(rules: ray.RayRules, cluster: str) -> list[Validation]:
    groups = f"{cluster}.?workerGroupSpecs.orValue([])"
    is_autoscaled = f"{cluster}.?enableInTreeAutoscaling.orValue(false) == true"
    validations = [
        Validation(
            when="!variables.isElastic",
            cel=f"!({is_autoscaled})",
            message=f"{rules.path}.enableInTreeAutoscaling: {rules.autoscaling}",
        ),
        Validation(
            cel=f"size({groups}) < {ray.MOST_POD_SETS}",
            message=f"{rules.path}.workerGroupSpecs: with the head, must have at most {ray.MOST_POD_SETS} items",
        ),
        Validation(
            cel=f"{groups}.all(g, g.?groupName.orValue('') != 'head')",
            message=f'{rules.path}.workerGroupSpecs: "head" is reserved for the head group',
        ),
    ]
    if rules.job_kind is not job_kinds.RAY_CLUSTER:
        return validations
    gated = "{0}.?template.?spec.?schedulingGates.orValue([]).exists(s, s.name == '" + ELASTIC_JOB + "')"
    return [
        *validations,
        Validation(
            when="variables.isElastic",
            cel=f"{gated.format(f'{cluster}.?headGroupSpec')} && {groups}.all(g, {gated.format('g')})",
            message=f"{rules.path}: {ray.ELASTIC_GATE_REQUIRED}",
        ),
        Validation(
            when=f"variables.isElastic && {is_autoscaled}",
            cel=f"{NEW}.spec.?managedBy.orValue('') != '{management.MULTI_KUEUE}'",
            message=f"{rules.path}.enableInTreeAutoscaling: {ray.MULTI_KUEUE_AUTOSCALING}",
        ),
    ]


def _of_ray_job() -> list[Validation]:
    return [
        Validation(
            when=_SELECTS,
            cel=f"!{_HAS_CLUSTER}",
            message=f"spec.clusterSelector: {ray.USES_EXISTING_CLUSTER}",
        ),
        Validation(
            when=f"!({_SELECTS})",
            cel=_HAS_CLUSTER,
            message=ray.CLUSTER_REQUIRED,
        ),
        Validation(
            when=f"!({_SELECTS}) && {_HAS_CLUSTER}",
            cel=f"{NEW}.spec.?shutdownAfterJobFinishes.orValue(false) == true",
            message=f"spec.shutdownAfterJobFinishes: {ray.CLUSTER_OUTLIVES_JOB}",
        ),
    ]
