import pytest

from pykueue.api import registry, schema
from pykueue.api.schema_validation import validate

SCHEME = registry.scheme()


def faults(kind, spec, old=None, version="v1beta2"):
    """The texts for an object of this kind after defaulting."""
    structural_schema = SCHEME.for_kind(f"kueue.x-k8s.io/{version}", kind).schema
    objects = [schema.apply_defaults(structural_schema, {"spec": one}) for one in (spec, old) if one is not None]
    return [str(error) for error in validate(structural_schema, *objects)]


def group(*flavors, covered=("cpu",)):
    return {"coveredResources": list(covered), "flavors": list(flavors)}


def flavor(name="default", **limits):
    return {"name": name, "resources": [{"name": "cpu", "nominalQuota": 1, **limits}]}


UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
SUBDOMAIN = r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("ClusterQueue", {"stopPolicy": "Pause"}, ['spec.stopPolicy: Unsupported value: "Pause": supported values: "None", "Hold", "HoldAndDrain"', UNCHECKED]),
        ("ClusterQueue", {"cohortName": "Bad_Cohort"}, [f'spec.cohortName: Invalid value: "Bad_Cohort": spec.cohortName in body should match {SUBDOMAIN}']),
        ("ClusterQueue", {"resourceGroups": [group()]}, ["spec.resourceGroups[0].flavors: Invalid value: 0: spec.resourceGroups[0].flavors in body should have at least 1 items"]),
        ("ClusterQueue", {"resourceGroups": [group(flavor(), flavor())]}, ['spec.resourceGroups[0].flavors[1]: Duplicate value: {"name":"default"}']),
        ("ClusterQueue", {"resourceGroups": [group(flavor(borrowingLimit=1))]}, ["spec: Invalid value: borrowingLimit must be nil when cohort is empty"]),
        ("ClusterQueue", {"resourceGroups": [group(flavor(), covered=("cpu", "memory"))]}, ["spec.resourceGroups[0]: Invalid value: flavors must have the same number of resources as the coveredResources"]),
        ("ClusterQueue", {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}, ["spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"]),
        ("ClusterQueue", {"cohortName": 3}, ['spec.cohortName: Invalid value: "integer": spec.cohortName in body must be of type string: "integer"', UNCHECKED]),
        ("AdmissionCheck", {}, ["spec.controllerName: Required value", UNCHECKED]),
        ("ResourceFlavor", {"topologyName": "t"}, ['spec: Invalid value: "object": no such key: nodeLabels evaluating rule: at least one nodeLabel is required when topology is set']),
        ("ResourceFlavor", {"nodeLabels": {f"l{n}": "" for n in range(9)}}, ["spec.nodeLabels: Too many: 9: must have at most 8 items", UNCHECKED]),
        ("Topology", {"levels": [{"nodeLabel": "a"}, {"nodeLabel": "a"}]}, ["spec.levels: Invalid value: must be unique"]),
        ("Workload", {"podSets": [{"template": {}, "count": -1}]}, ["spec.podSets[0].count: Invalid value: -1: spec.podSets[0].count in body should be greater than or equal to 0"]),
        ("LocalQueue", {"clusterQueue": "a" * 254}, ["spec.clusterQueue: Too long: may not be more than 253 bytes", UNCHECKED]),
    ],
)  # fmt: skip
def test_faults_are_worded_as_the_api_server_words_them(kind, spec, expected):
    assert faults(kind, spec) == expected


def test_an_immutable_field_shows_the_new_value():
    assert faults("LocalQueue", {"clusterQueue": "b"}, {"clusterQueue": "a"}) == [
        'spec.clusterQueue: Invalid value: "b": field is immutable'
    ]


def test_an_unchanged_fault_is_tolerated_on_update():
    broken = {"cohortName": "Bad_Cohort"}
    assert faults("ClusterQueue", {**broken, "stopPolicy": "Hold"}, broken) == []


def test_a_transition_rule_needs_an_old_value():
    assert faults("LocalQueue", {"clusterQueue": "b"}, {}) == []


def test_int32_is_bounded():
    structural_schema = SCHEME.for_kind("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass").schema
    (error,) = validate(structural_schema, {"value": 2**31})
    assert str(error) == '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in value'


def crd(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ({"type": "number", "maximum": 1.5}, 2, "a: Invalid value: 2: a in body should be less than or equal to 1.5"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "a: Invalid value: 1: a in body should be greater than 1"),
        ({"type": "integer", "multipleOf": 2}, 3, "a: Invalid value: 3: a in body should be a multiple of 2"),
        ({"type": "string", "minLength": 2}, "x", 'a: Invalid value: "x": a in body should be at least 2 chars long'),
        ({"type": "string", "format": "date-time"}, "x", 'a: Invalid value: "x": a in body must be of type date-time: "x"'),
        ({"type": "object", "minProperties": 1}, {}, "a: Invalid value: 0: a in body should have at least 1 properties"),
        ({"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}, [1, 1], "a[1]: Duplicate value: 1"),
        ({"type": "boolean"}, None, 'a: Invalid value: "null": a in body must be of type boolean: "null"'),
    ],
)  # fmt: skip
def test_a_users_schema_is_enforced(part, value, expected):
    assert [str(error) for error in validate(crd(a=part), {"a": value})] == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"min": 1, "max": 2}, []),
        ({"min": 3, "max": 2}, ["a: Invalid value: min above max"]),
        ({"min": 3}, ['a: Invalid value: "object": no such key: max evaluating rule: min above max']),
    ],
)
def test_a_users_rule_is_run(value, expected):
    rule = {"rule": "self.min <= self.max", "message": "min above max"}
    part = {"type": "object", "x-kubernetes-validations": [rule]}
    assert [str(error) for error in validate(crd(a=part), {"a": value})] == expected


def test_a_users_rule_may_word_its_own_message():
    rule = {
        "rule": "self < 3",
        "messageExpression": "'no more than 3, not ' + string(self)",
        "reason": "FieldValueForbidden",
    }
    part = {"type": "integer", "x-kubernetes-validations": [rule]}
    assert [str(error) for error in validate(crd(a=part), {"a": 7})] == ["a: Forbidden: no more than 3, not 7"]


@pytest.mark.parametrize(
    ("part", "value", "faulty"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1, False),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [], True),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, True),
        ({"not": {"enum": ["x"]}}, "x", True),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, True),
    ],
)
def test_combinations_of_schemas(part, value, faulty):
    assert bool(validate(crd(a=part), {"a": value})) == faulty
