import pytest

from pykueue.api import registry, schema

SCHEME = registry.scheme()
CLUSTER_QUEUE = SCHEME.for_kind("kueue.x-k8s.io/v1beta2", "ClusterQueue").schema


def cluster_queue(**spec):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "queue"},
        "spec": spec,
    }


def test_defaults_reach_into_defaulted_objects():
    spec = schema.apply_defaults(CLUSTER_QUEUE, cluster_queue())["spec"]
    assert spec["preemption"] == {
        "borrowWithinCohort": {"policy": "Never"},
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
    }


def test_defaults_leave_what_is_written():
    spec = schema.apply_defaults(CLUSTER_QUEUE, cluster_queue(queueingStrategy="StrictFIFO"))["spec"]
    assert spec["queueingStrategy"] == "StrictFIFO"


def test_a_default_is_never_shared():
    first = schema.apply_defaults(CLUSTER_QUEUE, cluster_queue())
    first["spec"]["preemption"]["reclaimWithinCohort"] = "Any"
    second = schema.apply_defaults(CLUSTER_QUEUE, cluster_queue())
    assert second["spec"]["preemption"]["reclaimWithinCohort"] == "Never"


def test_null_is_absent_where_the_schema_allows_none():
    spec = schema.apply_defaults(CLUSTER_QUEUE, cluster_queue(stopPolicy=None, cohortName=None))["spec"]
    assert (spec["stopPolicy"], "cohortName" in spec) == ("None", False)


def test_null_stays_where_the_schema_allows_it():
    nullable = {"type": "object", "properties": {"a": {"type": "string", "nullable": True, "default": "x"}}}
    assert schema.apply_defaults(nullable, {"a": None}) == {"a": None}


def test_prune_drops_unknown_fields_at_every_depth():
    pruned = schema.prune(CLUSTER_QUEUE, cluster_queue(colour="red", preemption={"x": 1}))
    assert pruned["spec"] == {"preemption": {}}


def test_unknown_fields_are_worded_as_strict_decoding_words_them():
    groups = [{"coveredResources": [], "flavors": [{"name": "f", "colour": "red"}]}]
    unknown = schema.unknown_fields(CLUSTER_QUEUE, cluster_queue(resourceGroups=groups))
    assert [str(field) for field in unknown] == ['unknown field "spec.resourceGroups[0].flavors[0].colour"']


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [("cohort", "cohortName"), ("stoppolicy", "stopPolicy"), ("xyzzy", ""), ("preemptions", "preemption")],
)
def test_the_similar_field_is_suggested(written, suggestion):
    (field,) = schema.unknown_fields(CLUSTER_QUEUE, cluster_queue(**{written: 1}))
    assert field.suggestion == suggestion


def test_misspelt_metadata_is_found():
    (field,) = schema.unknown_fields(CLUSTER_QUEUE, {"metadata": {"lables": {}}})
    assert field.hint() == "unknown field \"metadata.lables\"; did you mean 'labels'?"


PRESERVING = {
    "type": "object",
    "properties": {
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"closed": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def test_preserved_fields_stay_but_known_ones_below_are_pruned():
    assert schema.prune(PRESERVING, {"open": {"x": {"y": 1}, "closed": {"a": "", "b": 1}}}) == {
        "open": {"x": {"y": 1}, "closed": {"a": ""}}
    }


def test_an_embedded_resource_keeps_its_identity():
    resource = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    assert schema.prune(PRESERVING, {"embedded": resource})["embedded"].keys() == {"apiVersion", "kind", "metadata"}


def test_map_keys_are_data():
    assert schema.prune(PRESERVING, {"labels": {"any": "thing"}}) == {"labels": {"any": "thing"}}


def test_fields_at_the_top_that_are_settled_are_not_looked_into():
    obj = cluster_queue(colour="red") | {"status": {"x": 1}}
    assert [field.path for field in schema.unknown_fields(CLUSTER_QUEUE, obj, {"spec"})] == ["status.x"]
