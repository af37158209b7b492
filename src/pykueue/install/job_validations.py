"""What Kueue's webhooks refuse of jobs and of Workloads, as CEL for a cluster without webhooks.

Job rules look at Kueue's labels and annotations only: a job that has none of them passes whatever it is. The same rules in
Python: `api.rules.jobs` and `api.rules.workload`.
"""

from pykueue.api.rules.jobs import batch_job, generic, management, topology
from pykueue.api.rules.jobs.frameworks import Framework
from pykueue.install import cel_texts
from pykueue.install.queue_validations import Validation

_LABELS, _ANNOTATIONS = "labels", "annotations"
_IS_UPDATE = "oldObject != null"


def _is_suspended(framework: Framework, obj: str) -> str:
    """Every step of the path has to be there."""
    steps = [".".join((obj, *framework.suspend[: depth + 1])) for depth in range(len(framework.suspend))]
    return "(" + " && ".join([*(f"has({step})" for step in steps), steps[-1]]) + ")"


def of_jobs(framework: Framework) -> list[Validation]:
    is_suspended, was_suspended = (_is_suspended(framework, obj) for obj in ("object", "oldObject"))
    queue, before = (cel_texts.entry(_LABELS, management.QUEUE_NAME, obj) for obj in ("object", "oldObject"))
    name, name_before = (cel_texts.entry(_LABELS, generic.PREBUILT_WORKLOAD, obj) for obj in ("object", "oldObject"))
    time, time_before = (cel_texts.entry(_LABELS, generic.MAX_EXEC_TIME, obj) for obj in ("object", "oldObject"))
    found = [
        Validation(
            when=cel_texts.has_entry(_LABELS, management.QUEUE_NAME),
            cel=cel_texts.is_dns_subdomain(queue),
            message=f"{generic.QUEUE_PATH} must be a lowercase RFC 1123 subdomain",
        ),
        Validation(
            when=cel_texts.has_entry(_LABELS, generic.MAX_EXEC_TIME),
            cel=cel_texts.is_positive_number(time),
            message=f"metadata.labels[{generic.MAX_EXEC_TIME}] should be a number greater than 0",
        ),
        Validation(
            when=f"{_IS_UPDATE} && !{is_suspended}",
            cel=f"{queue} == {before}",
            message=f"{generic.QUEUE_PATH}: field is immutable while the job is not suspended",
        ),
        Validation(
            when=f"{_IS_UPDATE} && !({is_suspended} && {was_suspended})",
            cel=f"{time} == {time_before}",
            message=f"metadata.labels[{generic.MAX_EXEC_TIME}]: field is immutable while the job is not suspended",
        ),
        Validation(
            when=f"{_IS_UPDATE} && !{is_suspended}",
            cel=f"{name} == {name_before}",
            message=f"metadata.labels[{generic.PREBUILT_WORKLOAD}]: field is immutable while the job is not suspended",
        ),
        *_priority_class(is_suspended),
        _prebuilt(framework, name),
    ]
    return [*found, *_batch_job(is_suspended, was_suspended)] if framework.name == "batch/job" else found


def _prebuilt(framework: Framework, name: str) -> Validation:
    label = f"metadata.labels[{generic.PREBUILT_WORKLOAD}]"
    if not framework.accepts_prebuilt_workload:
        message = f'{label}: Is not supported for "{framework.group_version_kind}"'
        return Validation(cel=f"{name} == ''", message=message)
    return Validation(
        when=f"{name} != ''",
        cel=cel_texts.is_dns_subdomain(name),
        message=f"{label} must be a lowercase RFC 1123 subdomain",
    )


def _priority_class(is_suspended: str) -> list[Validation]:
    after, before = (cel_texts.entry(_LABELS, management.PRIORITY_CLASS, obj) for obj in ("object", "oldObject"))
    return [
        Validation(
            when=f"{_IS_UPDATE} && !{is_suspended}",
            cel=f"{before} != '' || {after} == ''",
            message="WorkloadPriorityClass cannot be added to a non-suspended workload",
        ),
        Validation(
            when=_IS_UPDATE,
            cel=f"{before} == '' || {after} != ''",
            message="WorkloadPriorityClass cannot be removed from a workload",
        ),
    ]


def _batch_job(is_suspended: str, was_suspended: str) -> list[Validation]:
    least, least_before = (cel_texts.entry(_ANNOTATIONS, batch_job.MIN_PARALLELISM, o) for o in ("object", "oldObject"))
    has_least = cel_texts.has_entry(_ANNOTATIONS, batch_job.MIN_PARALLELISM)
    is_new = f"(oldObject == null || {least} != {least_before})"
    parallelism = "(has(object.spec.parallelism) ? object.spec.parallelism : 1)"
    parallelism_before = parallelism.replace("object.", "oldObject.")
    completions = f"(has(object.spec.completions) ? object.spec.completions : {parallelism})"
    count = f"({completions} < {parallelism} ? {completions} : {parallelism})"
    equal = cel_texts.entry(_ANNOTATIONS, batch_job.COMPLETIONS_EQUAL_PARALLELISM)
    has_equal = cel_texts.has_entry(_ANNOTATIONS, batch_job.COMPLETIONS_EQUAL_PARALLELISM)
    truths, falsehoods = "['1', 't', 'T', 'TRUE', 'true', 'True']", "['0', 'f', 'F', 'FALSE', 'false', 'False']"
    equal_before = cel_texts.entry(_ANNOTATIONS, batch_job.COMPLETIONS_EQUAL_PARALLELISM, "oldObject")
    return [
        Validation(
            when=f"{has_least} && {is_new}",
            cel=f"{cel_texts.is_positive_number(least)} && int({least}.replace('+', '')) < {count}",
            message=f"metadata.annotations[{batch_job.MIN_PARALLELISM}] should be between 0 and the number of pods",
        ),
        Validation(
            when=f"{_IS_UPDATE} && {has_least.replace('object.', 'oldObject.')} && !{was_suspended}",
            cel=f"{parallelism} == {parallelism_before}",
            message="spec.parallelism: cannot change when partial admission is enabled and the job is not suspended",
        ),
        Validation(
            when=has_equal,
            cel=f"{equal} in {truths} || {equal} in {falsehoods}",
            message=f"metadata.annotations[{batch_job.COMPLETIONS_EQUAL_PARALLELISM}] must be a boolean",
        ),
        Validation(
            when=f"{equal} in {truths}",
            cel="has(object.spec.completionMode) && object.spec.completionMode == 'Indexed' && "
            f"(has(object.spec.completions) ? object.spec.completions : 1) == {parallelism}",
            message=f"{batch_job.COMPLETIONS_EQUAL_PARALLELISM} is for Indexed jobs with completions equal to parallelism",
        ),
        Validation(
            when=f"{_IS_UPDATE} && !{was_suspended} && !{is_suspended}",
            cel=f"({equal} in {truths}) == ({equal_before} in {truths})",
            message=f"metadata.annotations[{batch_job.COMPLETIONS_EQUAL_PARALLELISM}]: field is immutable while the job is "
            "not suspended",
        ),
        *_topology("object.spec.template"),
    ]


def _topology(template: str) -> list[Validation]:
    """`template` is CEL that leads to a pod template which is there."""

    def has(name: str) -> str:
        return cel_texts.has_entry(_ANNOTATIONS, name, template)

    when = f"has({template}.metadata)"
    levels = (topology.REQUIRED, topology.PREFERRED, topology.SLICE_REQUIRED)
    exclusive = (topology.REQUIRED, topology.PREFERRED, topology.UNCONSTRAINED)
    values = [
        f"(!{has(name)} || {cel_texts.is_label_key(cel_texts.entry(_ANNOTATIONS, name, template))})" for name in levels
    ]
    size = cel_texts.entry(_ANNOTATIONS, topology.SLICE_SIZE, template)
    return [
        Validation(
            when=when,
            cel=f"size([{', '.join(has(name) for name in exclusive)}].filter(present, present)) <= 1",
            message="must not contain more than one topology annotation",
        ),
        Validation(when=when, cel=" && ".join(values), message="a topology annotation must be the label of a level"),
        Validation(
            when=when,
            cel=f"{has(topology.SLICE_SIZE)} == {has(topology.SLICE_REQUIRED)} && "
            f"(!{has(topology.SLICE_SIZE)} || {cel_texts.is_positive_number(size)})",
            message="podset-slice-size and podset-slice-required-topology go together, and the size is at least 1",
        ),
    ]


def _every_container(text: str) -> str:
    """Of each container `c` of each pod set."""
    lists = (f"p.template.spec.{name}" for name in ("containers", "initContainers"))
    each = " && ".join(f"(!has({place}) || {place}.all(c, {text}))" for place in lists)
    return f"object.spec.podSets.all(p, !has(p.template) || !has(p.template.spec) || ({each}))"


def _every_resources(text: str) -> str:
    """Of each map `requests` or `limits` of each container, written `{0}`."""
    maps = ("c.resources.requests", "c.resources.limits")
    each = " && ".join(f"(!has({place}) || {text.format(place)})" for place in maps)
    return _every_container(f"!has(c.resources) || ({each})")


def of_workloads() -> list[Validation]:
    reserved, was_reserved = (cel_texts.is_condition_true("QuotaReserved", obj) for obj in ("object", "oldObject"))
    has_pod_sets = "has(object.spec) && has(object.spec.podSets)"
    admission = "object.status.admission"
    had_none = f"({_IS_UPDATE} && {was_reserved} && !has(oldObject.status.admission))"
    pods = "object.status.reclaimablePods"
    is_admitted_twice = (
        f"{_IS_UPDATE} && has(object.status) && has(oldObject.status) && has({admission}) && "
        "has(oldObject.status.admission)"
    )
    has_pods = f"has(object.status) && has({pods}) && {has_pod_sets}"
    cluster = "object.status.clusterName"
    return [
        Validation(
            when=has_pod_sets,
            cel=_every_resources("!('pods' in {0})"),
            message="the resource name pods is reserved for internal kueue use",
        ),
        Validation(
            when=has_pod_sets,
            cel=_every_resources("{0}.all(k, quantity(string({0}[k])).compareTo(quantity('0')) >= 0)"),
            message="resources must be greater than or equal to 0",
        ),
        Validation(
            when=has_pod_sets,
            cel="size(object.spec.podSets.filter(p, has(p.minCount))) <= 1",
            message="spec.podSets: at most one podSet can use minCount",
        ),
        Validation(
            when=reserved,
            cel=f"has({admission}) || {had_none}",
            message="status.admission must be set while the QuotaReserved condition is true",
        ),
        Validation(
            when=f"{reserved} && has({admission}) && has({admission}.podSetAssignments)",
            cel=f"{admission}.podSetAssignments.all(a, object.spec.podSets.exists(p, p.name == a.name))",
            message="status.admission.podSetAssignments must name pod sets of the workload",
        ),
        Validation(
            when=has_pods,
            cel=f"{pods}.all(r, object.spec.podSets.exists(p, p.name == r.name && r.count <= p.count))",
            message="status.reclaimablePods must name pod sets, and no more pods than these have",
        ),
        Validation(
            when=f"{_IS_UPDATE} && {was_reserved}",
            cel="size(object.spec.podSets) == size(oldObject.spec.podSets) && object.spec.podSets.all(p, "
            "oldObject.spec.podSets.exists(o, o.name == p.name && p.count <= o.count && o.template == p.template))",
            message="spec.podSets: field is immutable",
        ),
        Validation(
            when=is_admitted_twice,
            cel=f"{admission}.clusterQueue == oldObject.status.admission.clusterQueue",
            message="status.admission: field is immutable",
        ),
        Validation(
            when=f"{_IS_UPDATE} && has(object.status) && has({cluster}) && "
            "!(has(oldObject.status) && has(oldObject.status.clusterName))",
            cel="has(oldObject.status) && has(oldObject.status.nominatedClusterNames) && "
            f"{cluster} in oldObject.status.nominatedClusterNames",
            message="when setting clusterName it must be one of the nominatedClusterNames",
        ),
    ]
