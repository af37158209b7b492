import pytest

from pykueue.api import registry, schema
from pykueue.api.builtin import schemas
from pykueue.api.builtin.notation import Types
from pykueue.api.schema_validation import validate

SCHEME = registry.scheme()
POD = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}


def unknown(api_version, kind, spec):
    fields = schema.unknown_fields(SCHEME.for_kind(api_version, kind).schema, {"spec": spec})
    return [field.hint() for field in fields]


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
    recursive = {name for name in types.names() if types.schema(name).get("type") != "object"}
    assert recursive == {"JSONSchemaProps"}


def test_a_type_within_itself_can_be_followed():
    schema = schemas.recursive_types().schema("JSONSchemaProps")
    assert schema["properties"]["not"]["properties"] is schema["properties"]


@pytest.mark.parametrize("kind", list(SCHEME), ids=lambda kind: f"{kind.group}-{kind.kind}")
def test_every_kind_is_described(kind):
    assert kind.schema["description"]


NOTATION = """\
# a comment

A v1 -- An A.
  list [B]! @3+ key=x merge=x retain -- Bs.
  map {int32} @1 atomic
  word string(x|y) @2?
  = C @4

B atomic
  x string!

C
  count int32 >=1
  protocol string default=TCP
"""
X = {"type": "string"}
B = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": X}, "required": ["x"]}


def test_the_notation():
    schema = Types([NOTATION]).schema("A")
    properties = schema.pop("properties")
    assert schema == {"type": "object", "description": "An A.", "required": ["list"]}
    assert list(properties) == ["apiVersion", "kind", "list", "map", "word", "count", "protocol"]
    assert properties["list"] == {
        "type": "array",
        "items": B,
        "description": "Bs.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["x"],
        "x-kubernetes-patch-strategy": "merge,retainKeys",
        "x-kubernetes-patch-merge-key": "x",
    }
    assert properties["map"] == {
        "type": "object",
        "additionalProperties": {"type": "integer", "format": "int32"},
        "x-kubernetes-map-type": "atomic",
    }
    assert properties["word"] == {"type": "string", "enum": ["x", "y"]}
    assert properties["count"] == {"type": "integer", "format": "int32", "minimum": 1}
    assert properties["protocol"] == {"type": "string", "default": "TCP"}


def test_what_go_writes_of_an_empty_object():
    types = Types([NOTATION])
    assert types.always_written.tree("A") == {"list": {}}
    assert [(line.name, line.number, line.zero) for line in types.lines("A")] == [
        ("list", 3, "+"),
        ("map", 1, ""),
        ("word", 2, "?"),
        ("=", 4, ""),
    ]


def test_two_types_cannot_have_one_name():
    with pytest.raises(AssertionError, match="two types are called A"):
        Types(["A\n  x string\n\nA\n  y string\n"])


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
    names = [column.name for column in SCHEME.for_kind(api_version, kind).columns if column.priority == 0]
    assert ",".join(names) == columns
