import pytest

from pykueue.api import registry, schema
from pykueue.api.builtin import schemas
from pykueue.api.builtin.notation import Types
from pykueue.api.schema_validation import validate

SCHEME = registry.scheme()
POD = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}


def unknown(api_version, kind, spec):
    found = schema.unknown_fields(SCHEME.for_kind(api_version, kind).schema, {"spec": spec})
    return [field.hint() for field in found]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "hint"),
    [
        ("batch/v1", "Job", {"paralelism": 1}, "unknown field \"spec.paralelism\"; did you mean 'parallelism'?"),
        (
            "batch/v1",
            "Job",
            {"template": {"spec": {"containers": [{"name": "c", "img": "i"}]}}},
            "unknown field \"spec.template.spec.containers[0].img\"; did you mean 'image'?",
        ),
        (
            "ray.io/v1",
            "RayCluster",
            {"workerGroupSpecs": [{"replica": 1}]},
            "unknown field \"spec.workerGroupSpecs[0].replica\"; did you mean 'replicas'?",
        ),
        (
            "ray.io/v1",
            "RayJob",
            {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"nodeselector": {}}}}}},
            "unknown field \"spec.rayClusterSpec.headGroupSpec.template.spec.nodeselector\"; did you mean 'nodeSelector'?",
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"replica": 1}}},
            "unknown field \"spec.pytorchReplicaSpecs.Worker.replica\"; did you mean 'replicas'?",
        ),
        ("v1", "Pod", {"container": []}, "unknown field \"spec.container\"; did you mean 'containers'?"),
    ],
)
def test_a_misspelt_field_is_found(api_version, kind, spec, hint):
    assert unknown(api_version, kind, spec) == [hint]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "message"),
    [
        (
            "apps/v1",
            "Deployment",
            {"selector": {}, "template": {"spec": POD}, "replicas": -1},
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
        ),
        ("batch/v1", "Job", {"template": {"spec": {}}}, "spec.template.spec.containers: Required value"),
        (
            "v1",
            "Pod",
            POD | {"dnsPolicy": "Sometimes"},
            'spec.dnsPolicy: Unsupported value: "Sometimes": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"',
        ),
    ],
)
def test_plain_faults_of_builtin_kinds_are_found(api_version, kind, spec, message):
    assert [str(error) for error in validate(SCHEME.for_kind(api_version, kind).schema, {"spec": spec})] == [message]


def test_a_repeated_variable_is_left_to_kubernetes_own_rules():
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {"spec": {"containers": [{"name": "c", "env": env}]}}
    assert validate(SCHEME.for_kind("v1", "Pod").schema, pod) == []


def test_the_two_events_differ():
    core, events = (SCHEME.for_kind(version, "Event").schema for version in ("v1", "events.k8s.io/v1"))
    assert ("involvedObject" in core["properties"], "regarding" in events["properties"]) == (True, True)


def test_every_type_can_be_built():
    types = schemas.types()
    assert all(types.schema(name)["type"] == "object" for name in types.names())


@pytest.mark.parametrize("kind", list(SCHEME), ids=lambda kind: f"{kind.group}-{kind.kind}")
def test_every_kind_is_described(kind):
    assert kind.schema["description"]


def test_the_notation():
    types = Types(
        [
            "# a comment\n\nA -- An A.\n  list [B]! key=x merge=x -- Bs.\n  map {int32}\n  word string(x|y)\n\nB atomic\n  x string!\n"
        ]
    )
    assert types.schema("A") == {
        "type": "object",
        "description": "An A.",
        "properties": {
            "list": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"x": {"type": "string"}},
                    "required": ["x"],
                },
                "description": "Bs.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["x"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "x",
            },
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
            "word": {"type": "string", "enum": ["x", "y"]},
        },
        "required": ["list"],
    }


def test_an_mpi_job_is_one_thing_in_two_versions():
    old = SCHEME.for_kind("kubeflow.org/v1", "MPIJob")
    stored = old.to_storage({"apiVersion": "kubeflow.org/v1", "kind": "MPIJob"})
    assert (stored["apiVersion"], old.from_storage(stored)["apiVersion"]) == ("kubeflow.org/v2beta1", "kubeflow.org/v1")


@pytest.mark.parametrize(
    ("api_version", "kind", "columns"),
    [
        ("ray.io/v1", "RayCluster", "desired workers,available workers,cpus,memory,gpus,status,Age"),
        ("ray.io/v1", "RayJob", "job status,deployment status,ray cluster name,start time,end time,Age"),
        ("kubeflow.org/v1", "PyTorchJob", "State,Age"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "TerminalState,Restarts,Completed,Suspended,Age"),
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "Cohort,Pending Workloads"),
        ("kueue.x-k8s.io/v1beta1", "Workload", "Queue,Reserved in,Admitted,Finished,Age"),
    ],
)
def test_columns_that_get_shows(api_version, kind, columns):
    shown = [column.name for column in SCHEME.for_kind(api_version, kind).columns if column.priority == 0]
    assert ",".join(shown) == columns
