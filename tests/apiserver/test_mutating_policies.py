"""MutatingAdmissionPolicies change writes as those of Kubernetes do."""

import pytest
from tests.apiserver.api_requests import create, send
from tests.apiserver.test_validating_policies import CONFIG_MAPS, GROUP, PATH, config_map, install
from tests.apiserver.test_validating_policies import binding as validating_binding
from tests.apiserver.test_validating_policies import policy as validating_policy

PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}


def policy(*texts, name="p", rules=(CONFIG_MAPS,), **spec):
    """A text that starts with a bracket is a JSON patch, another one an apply configuration."""
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
        if text.startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        for text in texts
    ]
    spec = {"matchConstraints": {"resourceRules": list(rules)}, "mutations": mutations, **spec}
    return {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(name="p", **spec):
    spec = {"policyName": name, **spec}
    return {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def pod(name="p", **spec):
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def mutated(api, *texts, obj=None, **spec):
    await install(api, policy(*texts, **spec), binding())
    answer = await create(api, obj or config_map(data={"a": "1"}))
    assert answer.code == 201, answer.message
    return answer.body


async def test_an_apply_configuration_merges_maps(api):
    text = "Object{metadata: Object.metadata{labels: {'team': object.metadata.name}}, data: {'b': '2'}}"
    body = await mutated(api, text)
    assert body["metadata"]["labels"] == {"team": "c"}
    assert body["data"] == {"a": "1", "b": "2"}


async def test_an_apply_configuration_merges_lists_by_key_and_the_new_parts_get_defaults(api):
    text = "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'mesh', image: 'm'}]}}"
    body = await mutated(api, text, obj=pod(initContainers=[{"name": "a", "image": "a"}]), rules=[PODS])
    containers = body["spec"]["initContainers"]
    assert [container["name"] for container in containers] == ["a", "mesh"]
    assert containers[1]["terminationMessagePath"] == "/dev/termination-log"


async def test_an_optional_field_without_a_value_is_left_out(api):
    text = "Object{metadata: Object.metadata{?labels: object.metadata.?annotations}}"
    assert "labels" not in (await mutated(api, text))["metadata"]


async def test_a_json_patch(api):
    text = """[
        JSONPatch{op: "test", path: "/data/a", value: "1"},
        JSONPatch{op: "replace", path: "/data/a", value: "2"},
        JSONPatch{op: "add", path: "/metadata/annotations", value: {"example.com/x": "y"}},
        JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("a/b"), value: "z"},
    ]"""
    body = await mutated(api, text.strip())
    assert body["data"] == {"a": "2"}
    assert body["metadata"]["annotations"] == {"example.com/x": "y", "a/b": "z"}


async def test_a_json_patch_whose_test_fails_changes_nothing(api):
    text = "[JSONPatch{op: 'test', path: '/data/a', value: '9'}, JSONPatch{op: 'remove', path: '/data'}]"
    assert (await mutated(api, text))["data"] == {"a": "1"}


async def test_each_mutation_sees_the_last_one(api):
    first = "Object{data: {'a': object.data.a + '!'}}"
    assert (await mutated(api, first, first))["data"] == {"a": "1!!"}


async def test_conditions_variables_and_parameters(api):
    await create(api, config_map("defaults", {"value": "7"}))
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "n", "expression": "object.metadata.name != 'skipped'"}],
        "variables": [{"name": "v", "expression": "params.data.value"}],
    }
    reference = {"name": "defaults", "parameterNotFoundAction": "Deny"}
    await install(api, policy("Object{data: {'v': variables.v}}", **spec), binding(paramRef=reference))
    assert (await create(api, config_map("a"))).body["data"] == {"v": "7"}
    assert (await create(api, config_map("skipped"))).body.get("data", {}) == {}


async def test_a_policy_that_needs_a_later_one_runs_again(api):
    """`a` copies what `b` sets. It runs again only if it asks for it."""
    copies = "Object{data: {'copy': object.?data.?b.orValue('none')}}"
    await install(api, policy(copies, name="a"), binding("a"))
    await install(api, policy("Object{data: {'b': 'set'}}", name="b"), binding("b"))
    assert (await create(api, config_map("never"))).body["data"] == {"b": "set", "copy": "none"}
    again = policy(copies, name="a", reinvocationPolicy="IfNeeded")
    assert (await send(api, "PUT", f"/apis/{GROUP}/mutatingadmissionpolicies/a", again)).code == 200
    assert (await create(api, config_map("again"))).body["data"] == {"b": "set", "copy": "set"}


async def test_what_is_validated_is_what_is_stored(api):
    await install(api, policy("Object{data: {'a': 'x'}}"), binding())
    await install(api, validating_policy("object.data.a == 'x'"), validating_binding())
    assert (await create(api, config_map())).code == 201
    change = {"data": {"a": "other"}}
    answer = await send(api, "PATCH", f"{PATH}/c", change, content_type="application/merge-patch+json")
    assert (answer.code, answer.body["data"]) == (200, {"a": "x"})


async def test_a_queue_that_a_policy_sets_suspends_the_job(api):
    label = "Object{metadata: Object.metadata{labels: {'kueue.x-k8s.io/queue-name': 'q'}}}"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "j", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    body = await mutated(api, label, obj=job, rules=[JOBS])
    assert body["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Object{data: {'a': object.missing}}", "no such key: missing"),
        ("Object{missing: 'x'}", ".missing: field not declared in schema"),
        ("[JSONPatch{op: 'remove', path: '/data/none'}]", "JSON Patch"),
        ("[JSONPatch{op: 'eat', path: '/data/none'}]", "JSON Patch"),
    ],
)
async def test_a_mutation_that_fails_follows_the_failure_policy(api, text, words):
    await install(api, policy(text), binding())
    answer = await create(api, config_map())
    assert (answer.code, answer.body["reason"]) == (403, "Invalid")
    assert answer.message.startswith("policy 'p' with binding 'p' denied request: ")
    assert words in answer.message
    open_policy = policy(text, failurePolicy="Ignore")
    assert (await send(api, "PUT", f"/apis/{GROUP}/mutatingadmissionpolicies/p", open_policy)).code == 200
    assert (await create(api, config_map())).code == 201


async def test_atomic_parts_are_not_replaced(api):
    text = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}"
    await install(api, policy(text, rules=[PODS]), binding())
    answer = await create(api, pod())
    assert "may not mutate atomic arrays, maps or structs: .spec.containers[0].args" in answer.message


@pytest.mark.parametrize("path", ["/metadata/name", "/metadata/uid", "/metadata/namespace"])
async def test_a_mutation_cannot_change_the_identity(api, path):
    await install(api, policy(f"[JSONPatch{{op: 'replace', path: '{path}', value: 'other'}}]"), binding())
    assert (await create(api, config_map())).code == 400


async def test_an_invalid_result_is_refused(api):
    await install(api, policy("Object{metadata: Object.metadata{labels: {'!': 'x'}}}"), binding())
    assert (await create(api, config_map())).code == 422


async def test_a_type_must_fit_its_field(api):
    await install(api, policy("Object{metadata: Object.other{}}"), binding())
    answer = await create(api, config_map())
    assert answer.code == 403
    assert 'type mismatch: unexpected type name "Object.other", expected "Object.metadata"' in answer.message


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (policy("Object{"), "spec.mutations[0].applyConfiguration.expression"),
        (policy("'text'"), "spec.mutations[0].applyConfiguration.expression"),
        (policy("Object{spec: Other{}}"), "spec.mutations[0].applyConfiguration.expression"),
        (policy("{'spec': {}}"), "spec.mutations[0].applyConfiguration.expression"),
        (policy("[JSONPatch{op: params.x}]"), "spec.mutations[0].jsonPatch.expression"),
        (policy(), "spec.mutations"),
        (
            policy("Object{}", rules=[{**CONFIG_MAPS, "operations": ["DELETE"]}]),
            "spec.matchConstraints.resourceRules.operations",
        ),
        (policy("Object{}", reinvocationPolicy="Often"), "spec.reinvocationPolicy"),
    ],
)
async def test_a_faulty_policy_is_refused_with_its_field(api, part, field):
    answer = await create(api, part)
    assert answer.code == 422
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}
