"""Workload: spec and status. In Python: `api.rules.workload` and `api.rules.workload_update`.

The rules of conditions are in the schema.
"""

from msgspec.structs import replace

from pykueue.api import feature_gates
from pykueue.api.labels import PRIORITY_BOOST, WORKLOAD_SLICE_REPLACEMENT_FOR
from pykueue.api.rules import workload, workload_update
from pykueue.api.scheme import Settings
from pykueue.install.validations import admission_gates, cel, generic, table
from pykueue.install.validations.table import IS_UPDATE, METADATA, Table, Validation, Variable

_POD_SET_INDEXES = ", ".join(map(str, range(18)))
_ADMISSION, _OLD_ADMISSION = (f"{obj}.?status.?admission" for obj in ("object", "oldObject"))
_ASSIGNMENTS = f"{_ADMISSION}.?podSetAssignments.orValue([])"
_RECLAIMABLE, _OLD_RECLAIMABLE = (f"{obj}.?status.?reclaimablePods.orValue([])" for obj in ("object", "oldObject"))
_CHECKS, _OLD_CHECKS = (f"{obj}.?status.?admissionChecks.orValue([])" for obj in ("object", "oldObject"))


def of_workloads(settings: Settings) -> Table:
    validations = [
        *_pod_sets(settings),
        *admission_gates.validations(settings),
        *_priority_boost(settings),
        _same_pod_sets(settings),
    ]
    of_status = of_statuses(settings)
    return replace(of_status, validations=(*validations, *of_status.validations))


def of_statuses(settings: Settings) -> Table:
    """The rules of a write of the status alone, which is the most frequent write of a Workload."""
    validations = [*_admission(), *_reclaimable_pods(), *_pod_set_updates(), *_updates(settings)]
    return Table(variables=_variables(settings), validations=tuple(validations))


def _is_on(settings: Settings, gate: str) -> bool:
    return feature_gates.is_enabled(settings.feature_gates, gate)


def _variables(settings: Settings) -> tuple[Variable, ...]:
    was_reserved = cel.is_condition_true("QuotaReserved", "oldObject")
    return (
        *METADATA,
        Variable(name="podSets", cel="object.?spec.?podSets.orValue([])"),
        Variable(name="oldPodSets", cel="oldObject == null ? [] : oldObject.?spec.?podSets.orValue([])"),
        Variable(name="isReserved", cel=cel.is_condition_true("QuotaReserved")),
        Variable(name="wasReserved", cel=f"{IS_UPDATE} && {was_reserved}"),
        Variable(name="isElastic", cel=generic.elastic_text(settings, table.annotation)),
        *admission_gates.variables(settings),
    )


def _every_pod_set(text: str, message: str) -> Validation:
    return Validation(cel=f"variables.podSets.all(p, {text})", message=message)


_CONTAINERS = ("containers", "initContainers")


def _every_resources(text: str) -> str:
    """A condition on each map `requests` or `limits` of the pod set `p` and of its containers.

    The map is called `amounts` in the text.
    """
    spec = "p.?template.?spec"
    maps = "[{0}.?resources.?requests.orValue({{}}), {0}.?resources.?limits.orValue({{}})].all(amounts, {1})"
    lists = (f"{spec}.?{name}.orValue([]).all(c, {maps.format('c', text)})" for name in _CONTAINERS)
    return " && ".join([*lists, maps.format(spec, text)])


def _pod_sets(settings: Settings) -> list[Validation]:
    validations = []
    if _is_on(settings, "WorkloadValidationForPodSetMetadata"):
        labels, annotations = (f"p.?template.?metadata.?{kind}.orValue({{}})" for kind in ("labels", "annotations"))
        validations += [
            _every_pod_set(cel.are_labels(labels), "spec.podSets: template.metadata.labels must be valid labels"),
            _every_pod_set(
                cel.are_annotations(annotations),
                "spec.podSets: template.metadata.annotations must be valid annotations",
            ),
        ]
    validations.append(
        _every_pod_set(
            _every_resources("!('pods' in amounts)"), "the resource name pods is reserved for internal kueue use"
        )
    )
    if _is_on(settings, "WorkloadValidateResourcesAreNonNegative"):
        amounts = f"amounts.all(name, {cel.is_not_negative('amounts[name]')})"
        validations.append(_every_pod_set(_every_resources(amounts), "resources must be greater than or equal to 0"))
    if _is_on(settings, "TASValidateWorkloadSliceSize"):
        validations += _slices()
    variable = "variables.podSets.filter(p, has(p.minCount))"
    return [
        *validations,
        Validation(cel=f"size({variable}) <= 1", message=f"spec.podSets: {workload.SEVERAL_MIN_COUNTS}"),
        Validation(
            when="variables.isElastic",
            cel=f"size({variable}) == 0",
            message=f"spec.podSets: {workload_update.PARTIAL_AND_ELASTIC}",
        ),
    ]


def _slices() -> list[Validation]:
    request = "p.?topologyRequest"
    size, level = f"{request}.?podSetSliceSize", f"{request}.?podSetSliceRequiredTopology"
    constraints = f"{request}.?podsetSliceRequiredTopologyConstraints.orValue([])"
    return [
        _every_pod_set(
            f"{size}.hasValue() == {level}.hasValue() && {size}.orValue(1) > 0",
            "topologyRequest: podSetSliceSize and podSetSliceRequiredTopology go together, and the size is greater than 0",
        ),
        _every_pod_set(
            f"{constraints}.all(c, c.?size.orValue(0) > 0)",
            "topologyRequest: the sizes of podsetSliceRequiredTopologyConstraints must be greater than 0",
        ),
    ]


def _admission() -> list[Validation]:
    had_none = f"(variables.wasReserved && !{_OLD_ADMISSION}.hasValue())"
    usage = "a.?resourceUsage.orValue({})"
    amount = cel.amount(f"{usage}[name]")
    milli = f"int({amount}.asApproximateFloat() * 1000.0 + 0.5)"
    units = f"({amount}.isInteger() ? {amount}.asInteger() : int({amount}.asApproximateFloat()) + 1)"
    is_multiple = f"{usage}.all(name, (name == 'cpu' ? {milli} : {units}) % a.?count.orValue(1) == 0)"
    return [
        Validation(
            when="variables.isReserved",
            cel=f"{_ADMISSION}.hasValue() || {had_none}",
            message=f"status.admission {workload.ADMISSION_REQUIRED}",
        ),
        Validation(
            when="variables.isReserved",
            cel=f"{_ASSIGNMENTS}.all(a, variables.podSets.exists(p, p.name == a.name))",
            message="status.admission.podSetAssignments must name pod sets of the workload",
        ),
        Validation(
            when="variables.isReserved",
            cel=f"{_ASSIGNMENTS}.all(a, a.?count.orValue(0) <= 0 || {is_multiple})",
            message="status.admission.podSetAssignments: resourceUsage must be a multiple of count",
        ),
    ]


def _reclaimable_pods() -> list[Validation]:
    was_so = f"{_OLD_RECLAIMABLE}.exists(o, o.name == r.name && o.count == r.count)"
    is_stale = f"({IS_UPDATE} && variables.isElastic && {was_so})"
    return [
        Validation(
            cel=f"{_RECLAIMABLE}.all(r, variables.podSets.exists(p, p.name == r.name && (r.count <= p.count || {is_stale})))",
            message="status.reclaimablePods must name pod sets, and no more pods than these have",
        )
    ]


def _pod_set_updates() -> list[Validation]:
    def every(text: str) -> str:
        return f"{_CHECKS}.all(c, c.?podSetUpdates.orValue([]).all(u, {text}))"

    labels = " && ".join(cel.are_labels(f"u.?{kind}.orValue({{}})") for kind in ("labels", "nodeSelector"))
    return [
        Validation(
            cel=every("variables.podSets.exists(p, p.name == u.name)"),
            message="status.admissionChecks: podSetUpdates must name pod sets of the workload",
        ),
        Validation(
            cel=every(cel.are_toleration_keys("u.?tolerations.orValue([])")),
            message="status.admissionChecks: podSetUpdates must have valid tolerations",
        ),
        Validation(
            cel=every(f"{labels} && {cel.are_annotations('u.?annotations.orValue({})')}"),
            message="status.admissionChecks: podSetUpdates must have valid labels, node selectors and annotations",
        ),
    ]


def _priority_boost(settings: Settings) -> list[Validation]:
    if not _is_on(settings, "PriorityBoost"):
        return []
    value = table.annotation(PRIORITY_BOOST)
    number = cel.number(value)
    return [
        Validation(
            when=f"'{PRIORITY_BOOST}' in variables.annotations",
            cel=f"{value}.matches('^[+-]?[0-9]{{1,10}}$') && {number} >= -2147483648 && {number} <= 2147483647",
            message=f"metadata.annotations[{PRIORITY_BOOST}] must be a valid signed integer",
        )
    ]


def _same_pod_sets(settings: Settings) -> Validation:
    now, before = "variables.podSets[i]", "variables.oldPodSets[i]"
    may_shrink = _is_on(settings, "ElasticJobsViaWorkloadSlices")
    count = f"{now}.count {'<=' if may_shrink else '=='} {before}.count"
    template = _same_templates(f"{now}.template", f"{before}.template")
    same = f"({count} && {template} && {cel.equal_but_for(now, before, ('count', 'template'))})"
    return Validation(
        when="variables.wasReserved",
        cel="size(variables.podSets) == size(variables.oldPodSets) && "
        f"[{_POD_SET_INDEXES}].all(i, i >= size(variables.podSets) || {same})",
        message="spec.podSets: field is immutable",
    )


def _same_templates(now: str, before: str) -> str:
    """Whether templates are equal, but for an empty `metadata` and empty `resources`.

    A Go client writes both where they are absent.
    """
    empty = " && ".join(
        f"{template}.?metadata.?{field}.orValue({{}}).size() == 0"
        for template in (now, before)
        for field in ("labels", "annotations")
    )
    parts = (
        f"({now}.?metadata == {before}.?metadata || ({empty}))",
        cel.equal_but_for(now, before, ("metadata", "spec")),
        cel.equal_but_for(f"{now}.spec", f"{before}.spec", ("containers", "initContainers")),
        *(_same_containers(*(f"{t}.spec.?{name}.orValue([])" for t in (now, before))) for name in _CONTAINERS),
    )
    return f"({now} == {before} || ({' && '.join(parts)}))"


def _same_containers(now: str, before: str) -> str:
    """Whether the lists have the same containers in the same order."""
    resources = " && ".join(
        f"c.?resources.?{name}.orValue({empty}) == o.?resources.?{name}.orValue({empty})"
        for name, empty in (("requests", "{}"), ("limits", "{}"), ("claims", "[]"))
    )
    same = f"c.name == o.name && {cel.equal_but_for('c', 'o', ('resources',))} && {resources}"
    names = " == ".join(f"{containers}.map(x, x.name)" for containers in (now, before))
    return f"({names} && {now}.all(c, {before}.exists(o, {same})))"


def _updates(settings: Settings) -> list[Validation]:
    may_slice = _is_on(settings, "ElasticJobsViaWorkloadSlices")
    name = "object.?status.?clusterName"
    is_replacement = f"'{WORKLOAD_SLICE_REPLACEMENT_FOR}' in variables.annotations"
    validations = [
        *_reclaimed_less(),
        _same_admission(settings),
        Validation(
            cel=f"{_OLD_CHECKS}.all(o, o.?state.orValue('') != 'Ready' || {_CHECKS}.all(c, c.name != o.name || "
            "c.?state.orValue('') != 'Ready' || c.?podSetUpdates == o.?podSetUpdates))",
            message="status.admissionChecks: podSetUpdates of a check that is Ready are immutable",
        ),
        Validation(
            when=f"{name}.hasValue() && !oldObject.?status.?clusterName.hasValue() && !({(may_slice and is_replacement) or 'false'})",
            cel=f"{name}.orValue('') in oldObject.?status.?nominatedClusterNames.orValue([])",
            message=workload_update.CLUSTER_NOT_NOMINATED,
        ),
    ]
    return table.under(IS_UPDATE, validations)


def _reclaimed_less() -> list[Validation]:
    """Reclaimable pods must not become fewer.

    Only an elastic workload may lose some, when a pod set has become smaller than admitted.
    """
    shrunk = f"{_ASSIGNMENTS}.exists(a, a.name == o.name && variables.podSets.all(p, p.name != a.name || a.?count.orValue(0) > p.count))"
    has_shrunk = f"(variables.isElastic && {shrunk})"
    as_many = f"{_RECLAIMABLE}.exists(r, r.name == o.name && r.count >= o.count)"
    return [
        Validation(
            when="variables.isReserved && variables.wasReserved",
            cel=f"{_OLD_RECLAIMABLE}.all(o, {as_many} || {has_shrunk})",
            message="status.reclaimablePods: counts cannot become less, and entries cannot be removed",
        )
    ]


def _same_admission(settings: Settings) -> Validation:
    now, before = f"{_ADMISSION}.value()", f"{_OLD_ADMISSION}.value()"
    same = f"{now} == {before}"
    if _is_on(settings, "TopologyAwareScheduling"):
        sets, old_sets = (f"{admission}.?podSetAssignments.orValue([])" for admission in (now, before))
        free = ("topologyAssignment", "delayedTopologyRequest")
        pairs = cel.equal_but_for(f"{sets}[i]", f"{old_sets}[i]", free)
        same = (
            f"{cel.equal_but_for(now, before, ('podSetAssignments',))} && size({sets}) == size({old_sets}) && "
            f"[{_POD_SET_INDEXES}].all(i, i >= size({sets}) || {pairs})"
        )
    return Validation(
        when=f"{_ADMISSION}.hasValue() && {_OLD_ADMISSION}.hasValue()",
        cel=same,
        message="status.admission: field is immutable",
    )
