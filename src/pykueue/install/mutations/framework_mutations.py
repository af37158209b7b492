"""Mutations of single job kinds at creation: elastic jobs, MPIJob, TrainJob.

In Python: the defaulters of `api.rules.jobs`.
"""

from collections.abc import Iterator

from pykueue.api import feature_gates
from pykueue.api.labels import ELASTIC_JOB, POD_INDEX_OFFSET, POD_SET_GROUP_NAME
from pykueue.api.rules.jobs import job_kinds, ray, train_job
from pykueue.api.rules.jobs.job_kinds import JobKind, Path
from pykueue.api.scheme import Object, Settings
from pykueue.install import admission_policies
from pykueue.install.admission_policies import Mutation, Subject, object_with
from pykueue.install.mutations import pod_gating

_IS_ELASTIC = f"object.metadata.?annotations[?'{ELASTIC_JOB}'].orValue('') == 'true'"
_INDEXES = ", ".join(map(str, range(ray.MOST_POD_SETS)))
_GATED_CLUSTERS = {
    rules.job_kind: rules.cluster for rules in (ray.RAY_CLUSTER, ray.RAY_SERVICE) if rules.gates_templates
}


def policies(job_kind: JobKind, settings: Settings) -> Iterator[Object]:
    if feature_gates.is_enabled(settings.feature_gates, "ElasticJobsViaWorkloadSlices"):
        yield from _elastic(job_kind)
    match job_kind:
        case job_kinds.POD:
            yield from pod_gating.by_parents(settings)
        case job_kinds.MPI_JOB if feature_gates.is_enabled(settings.feature_gates, "TopologyAwareScheduling"):
            yield from _ranks_of_mpi_jobs()
        case job_kinds.TRAIN_JOB:
            yield from _patches_of_train_jobs()


def _elastic(job_kind: JobKind) -> list[Object]:
    if job_kind == job_kinds.BATCH_JOB:
        gate = f"Object.spec.template.spec.schedulingGates{{name: '{ELASTIC_JOB}'}}"
        gates = Mutation(text=object_with(("spec", "template", "spec", "schedulingGates"), f"[{gate}]"))
    elif job_kind in _GATED_CLUSTERS:
        gates = _gated_cluster(_GATED_CLUSTERS[job_kind])
    else:
        return []
    subject = Subject(resource=job_kind.resource, conditions=(("elastic", _IS_ELASTIC),))
    return admission_policies.mutating(f"elastic-{job_kind.resource.plural}", subject, [gates])


def _gated_cluster(cluster: Path) -> Mutation:
    """A mutation that adds the gate to the templates of the head and of each worker group.

    Templates that have the gate are left out, so that the mutation can run again.
    """
    place, pointer = ".".join(("object", *cluster)), "/".join(("", *cluster))
    groups = f"{place}.?workerGroupSpecs.orValue([])"
    head, worker = f"{place}.headGroupSpec", f"{groups}[i]"
    path, paths = f"'{pointer}/headGroupSpec'", f"'{pointer}/workerGroupSpecs/' + string(i)"
    heads = f"[0].filter(i, {_is_ungated(head)}).map(i, {_gate(head, path)})"
    workers = f"[{_INDEXES}].filter(i, i < size({groups}) && {_is_ungated(worker)}).map(i, {_gate(worker, paths)})"
    return Mutation(text=f"{heads} + {workers}", is_json_patch=True)


def _is_ungated(group: str) -> str:
    gates = f"{group}.?template.?spec.?schedulingGates.orValue([])"
    return f"!{gates}.exists(g, g.name == '{ELASTIC_JOB}')"


def _gate(group: str, path: str) -> str:
    gates = f"{group}.template.spec.?schedulingGates.orValue([]) + [{{'name': '{ELASTIC_JOB}'}}]"
    return f"JSONPatch{{op: 'add', path: {path} + '/template/spec/schedulingGates', value: {gates}}}"


def _ranks_of_mpi_jobs() -> list[Object]:
    """A launcher that also works has rank 0, so that the ranks of the workers start at 1."""
    specs = "object.spec.?mpiReplicaSpecs"
    is_grouped = f"{specs}.?Launcher.?template.?metadata.?annotations[?'{POD_SET_GROUP_NAME}'].hasValue()"
    conditions = (
        ("workingLauncher", "object.spec.?runLauncherAsWorker.orValue(false) == true"),
        ("complete", f"{specs}.?Launcher.hasValue() && {specs}.?Worker.hasValue()"),
        ("ungrouped", f"!{is_grouped}"),
    )
    path = ("spec", "mpiReplicaSpecs", "Worker", "template", "metadata", "annotations")
    mutation = Mutation(text=object_with(path, f"{{'{POD_INDEX_OFFSET}': '1'}}"))
    subject = Subject(resource=job_kinds.MPI_JOB.resource, conditions=conditions)
    return admission_policies.mutating("ranks-mpijobs", subject, [mutation])


def _patches_of_train_jobs() -> list[Object]:
    manager = train_job.PATCH["manager"]
    patch = f"{{'manager': dyn('{manager}'), 'trainingRuntimeSpec': dyn({{'template': {{'spec': {{}}}}}})}}"
    path = "/spec/runtimePatches"
    text = (
        f"has(object.spec.runtimePatches) ? [JSONPatch{{op: 'add', path: '{path}/-', value: {patch}}}] : "
        f"[JSONPatch{{op: 'add', path: '{path}', value: [{patch}]}}]"
    )
    is_new = f"!object.spec.?runtimePatches.orValue([]).exists(p, p.?manager.orValue('') == '{manager}')"
    subject = Subject(resource=job_kinds.TRAIN_JOB.resource, conditions=(("unpatched", is_new),))
    return admission_policies.mutating("patch-trainjobs", subject, [Mutation(text=text, is_json_patch=True)])
