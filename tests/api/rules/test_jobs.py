import pytest

from pykueue.api.rules.jobs import job_kinds

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
QUEUE_PATH = f"metadata.labels[{QUEUE_NAME}]"
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def meta(name="a", queue="lq", labels=None, annotations=None):
    labels = {**({QUEUE_NAME: queue} if queue else {}), **(labels or {})}
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels, "annotations": annotations or {}}


def job(queue="lq", labels=None, annotations=None, template=None, **spec):
    metadata = meta(queue=queue, labels=labels, annotations=annotations)
    template = {"metadata": template or {}, "spec": POD_SPEC}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": 3, "completions": 3, "template": template, **spec},
    }


def pytorch(queue="lq", **run_policy):
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta(queue=queue),
        "spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": {"Master": {"template": {"spec": POD_SPEC}}}},
    }


def cluster_spec(*groups, **more):
    workers = [{"groupName": name, "template": {"spec": POD_SPEC}} for name in groups]
    return {"headGroupSpec": {"template": {"spec": POD_SPEC}}, "workerGroupSpecs": workers, **more}


def ray_cluster(*groups, queue="lq", annotations=None, **more):
    metadata = meta(queue=queue, annotations=annotations)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": cluster_spec(*groups, **more),
    }


def ray_job(queue="lq", **spec):
    spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster_spec("small"), **spec}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta(queue=queue), "spec": spec}


def local_queue(name):
    spec = {"clusterQueue": "cq"}
    return {"kind": "LocalQueue", "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def namespace(**labels):
    return {"kind": "Namespace", "metadata": {"name": "ns", "labels": labels}}


@pytest.mark.parametrize(
    ("labelled", "path"),
    [
        (job(), ("suspend",)),
        (pytorch(), ("runPolicy", "suspend")),
        (ray_cluster("small"), ("suspend",)),
        (ray_job(), ("suspend",)),
    ],
)
def test_job_with_a_queue_is_suspended_at_creation(admission, labelled, path):
    value = admission.stored(labelled)["spec"]
    for key in path:
        value = value[key]
    assert value is True


def test_job_without_a_queue_is_left_alone(admission):
    assert admission.stored(job(queue=None))["spec"]["suspend"] is False


def test_integration_that_is_off_leaves_its_kind_alone(admission_with):
    admission = admission_with(frameworks=frozenset({"batch/job"}))
    assert "suspend" not in admission.stored(pytorch())["spec"]["runPolicy"]


def test_label_of_a_disabled_integration_is_warned_of(admission_with, changed):
    admission = admission_with(frameworks=frozenset({"batch/job"}))
    [warning] = admission.verdict(pytorch()).warnings
    assert '"kubeflow.org/pytorchjob" is not enabled' in warning
    owned = changed(pytorch(), {"metadata": {"ownerReferences": [{"kind": "TrainJob", "name": "parent"}]}})
    for quiet in (pytorch(queue=None), owned, job()):
        assert not admission.verdict(quiet).warnings


def test_update_does_not_suspend(admission):
    assert admission.stored(job(suspend=False), old=job(suspend=True))["spec"]["suspend"] is False


def test_every_job_is_suspended_when_all_are_managed(admission_with):
    admission = admission_with(manage_jobs_without_queue_name=True)
    assert admission.stored(job(queue=None))["spec"]["suspend"] is True


def test_excluded_namespace_is_left_alone(admission_with):
    selector = {"matchExpressions": [{"key": "unmanaged", "operator": "DoesNotExist"}]}
    admission = admission_with(manage_jobs_without_queue_name=True, managed_jobs_namespace_selector=selector)
    admission.cluster.add(namespace(unmanaged="yes"))
    assert admission.stored(job(queue=None))["spec"]["suspend"] is False


def test_default_local_queue_is_taken(admission):
    admission.cluster.add(local_queue("default"))
    stored = admission.stored(job(queue=None))
    assert stored["metadata"]["labels"][QUEUE_NAME] == "default"
    assert stored["spec"]["suspend"] is True


def test_default_local_queue_is_not_taken_in_an_excluded_namespace(admission_with):
    admission = admission_with(managed_jobs_namespace_selector={"matchLabels": {"managed": "yes"}})
    admission.cluster.add(local_queue("default"))
    admission.cluster.add(namespace())
    assert QUEUE_NAME not in admission.stored(job(queue=None))["metadata"]["labels"]


def child_of(parent):
    owner = {"apiVersion": parent["apiVersion"], "kind": parent["kind"], "controller": True}
    child = job(queue=None)
    child["metadata"]["ownerReferences"] = [
        owner | {"name": parent["metadata"]["name"], "uid": parent["metadata"]["uid"]}
    ]
    return child


def test_child_of_a_managed_job_is_left_to_its_parent(admission_with):
    admission = admission_with(manage_jobs_without_queue_name=True)
    admission.cluster.add(ray_job())
    assert admission.stored(child_of(ray_job()))["spec"]["suspend"] is False


def test_namesake_of_the_owner_does_not_count(admission_with):
    admission = admission_with(manage_jobs_without_queue_name=True)
    namesake = ray_job()
    namesake["metadata"]["uid"] = "another"
    admission.cluster.add(namesake)
    assert admission.stored(child_of(ray_job()))["spec"]["suspend"] is True


def test_job_for_other_clusters_is_not_for_the_local_controller(admission):
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}
    admission.cluster.add(local_queue("lq"))
    admission.cluster.add({"kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": checks})
    check = {"controllerName": "kueue.x-k8s.io/multikueue"}
    admission.cluster.add({"kind": "AdmissionCheck", "metadata": {"name": "mk"}, "spec": check})
    assert admission.stored(job())["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"


def test_managed_by_is_left_alone_otherwise(admission):
    assert "managedBy" not in admission.stored(job())["spec"]


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
MIN = "kueue.x-k8s.io/job-min-parallelism"
SYNC = "kueue.x-k8s.io/job-completions-equal-parallelism"
TAS = "kueue.x-k8s.io/podset"


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (job(queue="bad_queue"), f'{QUEUE_PATH}: Invalid value: "bad_queue": {SUBDOMAIN}'),
        (
            job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "soon"}),
            'metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: "soon": strconv.Atoi: parsing "soon": invalid syntax',
        ),
        (
            job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "0"}),
            "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: Invalid value: 0: should be greater than 0",
        ),
        (
            job(annotations={"kueue.x-k8s.io/prebuilt-workload-name": "Not Ok"}),
            f'metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: Invalid value: "Not Ok": {SUBDOMAIN}',
        ),
        (job(annotations={MIN: "3"}), f"metadata.annotations[{MIN}]: Invalid value: 3: should be between 0 and 2"),
        (job(annotations={MIN: "few"}), f'metadata.annotations[{MIN}]: Invalid value: "few": strconv.Atoi: parsing "few": invalid syntax'),
        (job(annotations={SYNC: "maybe"}), f'metadata.annotations[{SYNC}]: Invalid value: "maybe": strconv.ParseBool: parsing "maybe": invalid syntax'),
        (
            job(annotations={SYNC: "true"}, completionMode="Indexed", completions=6),
            f"spec.completions: Invalid value: 6: should be equal to parallelism when {SYNC} annotation is true",
        ),
        (
            job(template={"annotations": {f"{TAS}-slice-size": "9"}}),
            f"spec.template.metadata.annotations[{TAS}-slice-size]: Forbidden: may not be set when '{TAS}-slice-required-topology' is not specified",
        ),
        (
            job(template={"annotations": {f"{TAS}-required-topology": "rack", f"{TAS}-preferred-topology": "rack"}}),
            f'spec.template.metadata.annotations: Invalid value: must not contain more than one topology annotation: ["{TAS}-required-topology", "{TAS}-preferred-topology", "{TAS}-unconstrained-topology"]',
        ),
        (
            job(template={"annotations": {f"{TAS}-slice-size": "4", f"{TAS}-slice-required-topology": "rack"}}),
            f'spec.template.metadata.annotations[{TAS}-slice-size]: Invalid value: "4": must not be greater than pod set count 3',
        ),
        (
            ray_cluster("head"),
            'spec.workerGroupSpecs[0].groupName: Forbidden: "head" is reserved for the head group',
        ),
        (
            ray_cluster(enableInTreeAutoscaling=True),
            'spec.enableInTreeAutoscaling: Invalid value: true: a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the ElasticJobsViaWorkloadSlices feature gate and set the "kueue.x-k8s.io/elastic-job": "true" annotation',
        ),
        (
            ray_cluster(*(f"g{index}" for index in range(18))),
            "spec.workerGroupSpecs: Too many: 19: must have at most 18 items",
        ),
        (
            ray_job(shutdownAfterJobFinishes=False),
            "spec.shutdownAfterJobFinishes: Invalid value: false: a kueue managed job should delete the cluster after finishing",
        ),
        (
            ray_job(rayClusterSpec=cluster_spec(enableInTreeAutoscaling=True)),
            "spec.rayClusterSpec.enableInTreeAutoscaling: Invalid value: true: a kueue managed job should only use autoscaling when workload slicing is enabled",
        ),
        (
            ray_job(rayClusterSpec=None),
            "spec.rayClusterSpec: Required value: rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector",
        ),
        (
            ray_job(clusterSelector={"a": "b"}),
            'spec.clusterSelector: Invalid value: {"a":"b"}: a kueue managed job should not use an existing cluster',
        ),
    ],
)  # fmt: skip
def test_refused_at_creation(admission, refused, why):
    assert admission.refusal(refused) == why


@pytest.mark.parametrize(
    "accepted", [job(), pytorch(), ray_cluster("small"), ray_job(), ray_cluster("head", queue=None)]
)
def test_accepted(admission, accepted):
    assert admission.refusal(accepted) == ""


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        (job(), job(queue=None), f'{QUEUE_PATH}: Invalid value: "lq": field is immutable'),
        (ray_job(queue="other"), ray_job(), f'{QUEUE_PATH}: Invalid value: "other": field is immutable'),
        (ray_job(queue=None), ray_job(), f'{QUEUE_PATH}: Invalid value: "": field is immutable'),
        (
            job(labels={PRIORITY_CLASS: "p10"}),
            job(),
            f'metadata.labels[{PRIORITY_CLASS}]: Invalid value: "p10": WorkloadPriorityClass cannot be added to a non-suspended workload',
        ),
        (
            job(suspend=True),
            job(labels={PRIORITY_CLASS: "p10"}, suspend=True),
            f'metadata.labels[{PRIORITY_CLASS}]: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload',
        ),
        (
            job(parallelism=2, annotations={MIN: "1"}),
            job(annotations={MIN: "1"}),
            "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended",
        ),
        (
            job(suspend=True, annotations={"kueue.x-k8s.io/admission-gated-by": "a.io/x"}),
            job(suspend=True),
            "metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden: cannot add admission gate after creation",
        ),
        (
            job(annotations={"kueue.x-k8s.io/elastic-job": "true"}),
            job(),
            "metadata.annotations[kueue.x-k8s.io/elastic-job]: Invalid value: true: field is immutable",
        ),
    ],
)
def test_refused_on_update(admission, new, old, why):
    assert admission.refusal(new, old) == why


def test_queue_may_change_while_suspended(admission):
    assert admission.refusal(job(queue="other", suspend=True), job(suspend=True)) == ""


def test_queue_may_not_be_emptied_beside_a_default_queue(admission):
    admission.cluster.add(local_queue("default"))
    assert admission.refusal(job(queue=None, suspend=True), job(suspend=True)) == (
        f'{QUEUE_PATH}: Invalid value: "": queue-name must not be empty in namespace with default queue'
    )


def test_priority_class_may_change_while_running(admission):
    assert admission.refusal(job(labels={PRIORITY_CLASS: "a"}), job(labels={PRIORITY_CLASS: "b"})) == ""


def test_elastic_job_is_gated(admission):
    stored = admission.stored(job(annotations={"kueue.x-k8s.io/elastic-job": "true"}))
    assert stored["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/elastic-job"}]


def test_elastic_pytorch_job_is_refused(admission, changed):
    elastic = changed(pytorch(), {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}})
    assert admission.refusal(elastic) == (
        "metadata.annotations[kueue.x-k8s.io/elastic-job]: Forbidden: "
        'elastic job is not supported for "kubeflow.org/v1, Kind=PyTorchJob"'
    )


def job_set(**counts):
    annotations = {f"{TAS}-group-name": "g", f"{TAS}-required-topology": "rack"}
    replicated = [
        {
            "name": name,
            "replicas": count,
            "template": {"spec": {"template": {"metadata": {"annotations": annotations}, "spec": POD_SPEC}}},
        }
        for name, count in counts.items()
    ]
    spec = {"replicatedJobs": replicated}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta(), "spec": spec}


def test_pod_set_group_of_leader_and_workers_is_accepted(admission):
    assert admission.refusal(job_set(leader=1, workers=4)) == ""


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        ({"a": 1}, "can only define groups of exactly 2 pod sets, got: 1 pod set(s)"),
        ({"a": 2, "b": 3}, "got: 2 replica(s) and 3 replica(s) in the group"),
    ],
)
def test_pod_set_group_must_be_a_pair_with_a_single_pod(admission, counts, fault):
    assert fault in admission.refusal(job_set(**counts))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "must be a valid JSON array"),
        ("[]", "topology constraints must contain between 1 and 3 entries"),
        ('[{"topology":"rack","size":0}]', "[0].size: Invalid value: 0: must be greater than or equal to 1"),
        ('[{"topology":"rack","size":3},{"topology":"host","size":2}]', "[1].size: Invalid value: 2: must evenly divide the parent layer size 3"),
        ('[{"topology":"rack","size":2},{"topology":"rack","size":1}]', '[1].topology: Duplicate value: "rack (also at index 0)"'),
        ('[{"topology":"rack","size":9}]', "Invalid value: 9: must not be greater than pod set count 3"),
    ],
)  # fmt: skip
def test_slice_constraints_are_checked(admission, text, fault):
    assert fault in admission.refusal(
        job(template={"annotations": {f"{TAS}-slice-required-topology-constraints": text}})
    )


def simulation(**spec):
    return {"apiVersion": "example.com/v1", "kind": "Simulation", "metadata": meta(), "spec": spec}


def test_custom_job_is_suspended_at_creation(admission_with):
    admission = admission_with(custom_jobs={("example.com", "Simulation"): ("spec", "paused")})
    assert admission.stored(simulation())["spec"] == {"paused": True}


def test_queue_of_a_running_custom_job_is_fixed(admission_with, changed):
    admission = admission_with(custom_jobs={("example.com", "Simulation"): ("spec", "paused")})
    moved = changed(simulation(), {"metadata": {"labels": {QUEUE_NAME: "other"}}})
    assert admission.refusal(moved, simulation()) == f'{QUEUE_PATH}: Invalid value: "other": field is immutable'


def test_other_kinds_are_left_alone(admission):
    assert admission.stored(simulation())["spec"] == {}


def test_a_job_of_an_external_framework_is_left_to_its_owner(admission_with):
    external = job_kinds.external("Flow.v1.example.com")
    owner = {"apiVersion": "example.com/v1", "kind": "Flow", "name": "f", "uid": "u", "controller": True}
    flow = {"apiVersion": "example.com/v1", "kind": "Flow", "metadata": {"name": "f", "namespace": "ns", "uid": "u"}}
    flow["metadata"]["labels"] = {QUEUE_NAME: "lq"}
    child = job(queue="")
    child["metadata"]["ownerReferences"] = [owner]
    suspended = []
    for externals in (frozenset({external}), frozenset()):
        admission = admission_with(external_jobs=externals, manage_jobs_without_queue_name=True)
        admission.cluster.add({"kind": "Namespace", "metadata": {"name": "ns"}})
        admission.cluster.add(flow)
        suspended.append(bool(admission.stored(child)["spec"].get("suspend")))
    assert suspended == [False, True]
