"""One job of every kind, the paths of its pod templates, and valid and invalid annotations."""

import copy

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
TIME, PREBUILT = "kueue.x-k8s.io/max-exec-time-seconds", "kueue.x-k8s.io/prebuilt-workload-name"
ELASTIC, GATES = "kueue.x-k8s.io/elastic-job", "kueue.x-k8s.io/admission-gated-by"
MANAGED, GROUP = "kueue.x-k8s.io/managed", "kueue.x-k8s.io/pod-group-name"
COUNT, RETRIABLE = "kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/retriable-in-group"
LEAST, EQUAL = "kueue.x-k8s.io/job-min-parallelism", "kueue.x-k8s.io/job-completions-equal-parallelism"
REQUIRED, PREFERRED, UNCONSTRAINED, SLICE, SIZE, LAYERS, TOGETHER = (
    f"kueue.x-k8s.io/podset-{name}"
    for name in (
        "required-topology", "preferred-topology", "unconstrained-topology", "slice-required-topology", "slice-size",
        "slice-required-topology-constraints", "group-name",
    )
)  # fmt: skip
SPEC = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], "restartPolicy": "Never"}


def pods(count, *, field="replicas"):
    return {field: count, "template": {"spec": copy.deepcopy(SPEC)}}


def _job(api_version, kind, spec):
    metadata = {"name": "j", "namespace": "n", "labels": {QUEUE: "lq"}, "annotations": {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _kubeflow(kind, field, *roles):
    return _job("kubeflow.org/v1", kind, {"runPolicy": {}, field: {role: pods(2) for role in roles}})


def _ray_cluster():
    group = {"groupName": "g", "replicas": 2, "numOfHosts": 2, "template": {"spec": copy.deepcopy(SPEC)}}
    return {"headGroupSpec": {"template": {"spec": copy.deepcopy(SPEC)}}, "workerGroupSpecs": [group]}


JOBS = {
    job["kind"]: job
    for job in (
        _job("batch/v1", "Job", {"parallelism": 3, "completions": 4, "template": {"spec": SPEC}}),
        _kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),
        _kubeflow("TFJob", "tfReplicaSpecs", "Chief", "PS", "Worker"),
        _kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
        _kubeflow("PaddleJob", "paddleReplicaSpecs", "Worker"),
        _kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
        {
            **_kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher", "Worker"),
            "apiVersion": "kubeflow.org/v2beta1",
        },
        _job("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [
            {"name": "a", "replicas": 1, "template": {"spec": pods(1, field="parallelism")}},
            {"name": "b", "replicas": 2, "template": {"spec": pods(3, field="parallelism") | {"completions": 2}}},
        ]}),
        _job("ray.io/v1", "RayCluster", _ray_cluster()),
        _job("ray.io/v1", "RayJob", {"shutdownAfterJobFinishes": True, "rayClusterSpec": _ray_cluster()}),
        _job("ray.io/v1", "RayService", {"rayClusterConfig": _ray_cluster()}),
        _job("sparkoperator.k8s.io/v1beta2", "SparkApplication", {
            "mode": "cluster", "driver": {"template": {}}, "executor": {"instances": 2, "template": {}}}),
        _job("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": []}),
        _job("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}}),
        _job("v1", "Pod", SPEC | {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}),
        *(_job("apps/v1", kind, {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": SPEC | {"restartPolicy": "Always"}}})
          for kind in ("Deployment", "StatefulSet")),
        _job("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {
            "size": 3, "leaderTemplate": {"spec": SPEC}, "workerTemplate": {"spec": SPEC}}}),
    )
}  # fmt: skip
SUSPEND = {
    "RayService": ("spec", "rayClusterConfig", "suspend"),
    **dict.fromkeys(("Job", "JobSet", "RayCluster", "RayJob", "SparkApplication", "AppWrapper", "TrainJob"), ("spec", "suspend")),
    **dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"), ("spec", "runPolicy", "suspend")),
}  # fmt: skip
_HEAD_AND_WORKER = (("headGroupSpec", "template"), ("workerGroupSpecs", 0, "template"))
TEMPLATES = {
    "Job": (("spec", "template"),),
    "JobSet": tuple(("spec", "replicatedJobs", index, "template", "spec", "template") for index in (0, 1)),
    "RayCluster": tuple(("spec", *path) for path in _HEAD_AND_WORKER),
    "RayJob": tuple(("spec", "rayClusterSpec", *path) for path in _HEAD_AND_WORKER),
    "RayService": tuple(("spec", "rayClusterConfig", *path) for path in _HEAD_AND_WORKER),
    "SparkApplication": (("spec", "driver", "template"), ("spec", "executor", "template")),
    "Pod": ((),),
    "LeaderWorkerSet": tuple(("spec", "leaderWorkerTemplate", name) for name in ("leaderTemplate", "workerTemplate")),
    **{
        kind: tuple(("spec", field, role, "template") for role in roles)
        for kind, field, roles in (
            ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")), ("TFJob", "tfReplicaSpecs", ("Chief", "PS")),
            ("XGBoostJob", "xgbReplicaSpecs", ("Worker",)), ("PaddleJob", "paddleReplicaSpecs", ("Worker",)),
            ("JAXJob", "jaxReplicaSpecs", ("Worker",)), ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker")),
        )
    },
}  # fmt: skip

LABELS = [
    {}, {QUEUE: "q"}, {QUEUE: ""}, {QUEUE: "bad_queue"}, {QUEUE: "a.b"}, {QUEUE: "x" * 63},
    *({QUEUE: "q", TIME: value} for value in ("0", "-1", "7", "+7", "007", "soon", "", "9" * 30)),
    *({QUEUE: "q", PREBUILT: value} for value in ("w", "Bad_Name", "")),
    {QUEUE: "q", CLASS: "high"}, {MANAGED: "true"}, {MANAGED: "no"}, {GROUP: "g"}, {GROUP: "Bad_Group"},
]  # fmt: skip
ANNOTATIONS = [
    {ELASTIC: "true"}, {ELASTIC: "false"}, {PREBUILT: "w"}, {PREBUILT: "Bad_Name"}, {PREBUILT: "w" * 70}, {PREBUILT: ""},
    *({GATES: value} for value in (
        "a.io/b", "a.io/b,c.io/d", " a.io/b , c.io/d ", "a.io/b,a.io/b", "a.io/b,", "nodomain", "A.io/b", "a.io/", "  ", "",
        "a.io/" + "b" * 60, "a.io/it's", "a.io/b c")),
    {LEAST: "0"}, {LEAST: "1"}, {LEAST: "2"}, {LEAST: "3"}, {LEAST: "x"}, {LEAST: "1", ELASTIC: "true"},
    {EQUAL: "true"}, {EQUAL: "false"}, {EQUAL: "perhaps"},
    {GROUP: "g", COUNT: "2"}, {GROUP: "g", COUNT: "0"}, {GROUP: "g", COUNT: "x"}, {COUNT: "2"}, {GROUP: "g"},
    {GROUP: "g", COUNT: "2", PREBUILT: "w"}, {GROUP: "g", COUNT: "2", PREBUILT: "g"},
]  # fmt: skip
PLACEMENTS = [
    {REQUIRED: "rack"}, {REQUIRED: "a b"}, {REQUIRED: ""}, {PREFERRED: "example.com/rack"}, {REQUIRED: "rack", PREFERRED: "rack"},
    {UNCONSTRAINED: "true"}, {UNCONSTRAINED: "perhaps"}, {UNCONSTRAINED: "true", REQUIRED: "rack"},
    {SIZE: "1"}, {SLICE: "rack"}, {SLICE: "a b", SIZE: "1"},
    *({SLICE: "rack", SIZE: size} for size in ("1", "+1", "0", "-1", "x", "2", "3", "5", "99999999999", "2147483648")),
    {TOGETHER: "g"}, {TOGETHER: "g", REQUIRED: "rack"}, {TOGETHER: "7", REQUIRED: "rack"},
    {TOGETHER: "g", REQUIRED: "rack", SLICE: "rack", SIZE: "1"},
    *({LAYERS: text} for text in (
        '[{"topology": "rack", "size": 1}]', '[{"topology":"block","size":2},{"topology":"rack","size":1}]',
        '[{"size": 2, "topology": "block"}, {"topology": "rack", "size": 2}]', '[{"topology": "rack", "size": 99}]',
        '[{"topology": "a", "size": 3}, {"topology": "b", "size": 2}]', '[{"topology": "a", "size": 1}, {"topology": "a", "size": 1}]',
        '[{"topology": "a b", "size": 1}]', '[{"topology": "a", "size": 0}]', '[{"topology": "a", "size": -1}]',
        '[{"topology": "a"}]', '[{"size": 1}]', "[{}]", "[]", "{}", "[", "", "null", '"a"', '[{"topology": "a", "size": "1"}]',
        '[{"topology": "a", "size": 1},]', '[{"topology": "a", "size": 1.5}]',
        "[" + ",".join(f'{{"topology": "l{n}", "size": 1}}' for n in range(4)) + "]")),
    {LAYERS: '[{"topology": "rack", "size": 1}]', TOGETHER: "g", REQUIRED: "rack"},
    {LAYERS: '[{"topology": "rack", "size": 1}]', SLICE: "rack", SIZE: "1"},
]  # fmt: skip


def changed(obj, path, value):
    """A copy with another value at a path; None takes the field away."""
    copied = copy.deepcopy(obj)
    holder = copied
    for step in path[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[step]
    if value is None:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return copied


def marked(job, labels=None, annotations=None):
    """`labels` replace those of the job."""
    copied = job if labels is None else changed(job, ("metadata", "labels"), labels)
    return copied if annotations is None else changed(copied, ("metadata", "annotations"), annotations)


def placed(job, annotations, *indexes):
    """With annotations on these pod templates of the job, or on all of them."""
    places = TEMPLATES[job["kind"]]
    for index in indexes or range(len(places)):
        job = changed(job, (*places[index], "metadata", "annotations"), annotations)
    return job


def suspended(job, *, value):
    if job["kind"] == "Pod":
        gates = [{"name": "kueue.x-k8s.io/admission"}] if value else []
        return changed(job, ("spec", "schedulingGates"), gates)
    if job["kind"] not in SUSPEND:
        return changed(job, ("status", "readyReplicas"), 0 if value else 1)
    return changed(job, SUSPEND[job["kind"]], value)
