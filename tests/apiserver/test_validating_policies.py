"""ValidatingAdmissionPolicies refuse, warn and log as those of Kubernetes do."""

import logging

import pytest
from tests.apiserver.api_requests import binding as role_binding
from tests.apiserver.api_requests import cluster_role, create, namespace, rule, send, user

GROUP = "admissionregistration.k8s.io/v1"
CONFIG_MAPS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["CREATE", "UPDATE"],
}
PATH = "/api/v1/namespaces/default/configmaps"


def policy(*validations, name="p", rules=(CONFIG_MAPS,), match=None, **spec):
    """Each validation is a text or a spec."""
    specs = [{"expression": it} if isinstance(it, str) else it for it in validations]
    spec = {"matchConstraints": {"resourceRules": list(rules), **(match or {})}, "validations": specs, **spec}
    return {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def binding(*actions, name="b", policy_name="p", **spec):
    spec = {"policyName": policy_name, "validationActions": list(actions or ("Deny",)), **spec}
    return {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def config_map(name="c", data=None, labels=None, namespace="default"):
    metadata = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


async def install(api, *parts):
    for part in parts:
        answer = await create(api, part)
        assert answer.code == 201, answer.message
        assert not answer.warnings


async def test_a_policy_without_a_binding_has_no_effect(api):
    await install(api, policy("false"))
    assert (await create(api, config_map())).code == 201


async def test_a_refusal_has_the_words_and_the_causes_of_kubernetes(api):
    await install(api, policy("object.metadata.name.startsWith('x')"), binding())
    answer = await create(api, config_map())
    message = (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: object.metadata.name.startsWith('x')"
    )
    assert answer.code == 422
    assert answer.body["reason"] == "Invalid"
    assert answer.message == f'configmaps "c" is forbidden: {message}'
    assert answer.body["details"]["causes"] == [{"message": message}]
    assert (await send(api, "GET", f"{PATH}/c")).code == 404
    assert (await create(api, config_map("xc"))).code == 201


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"message": " plain "}, 422, "denied request: plain"),
        ({"message": "plain", "messageExpression": "'no ' + object.metadata.name"}, 422, "denied request: no c"),
        ({"message": "plain", "messageExpression": "object.missing"}, 422, "denied request: plain"),
        ({"message": "plain", "messageExpression": "'two\\nlines'"}, 422, "denied request: plain"),
        ({"message": "m", "reason": "Forbidden"}, 403, "denied request: m"),
        ({"message": "m", "reason": "RequestEntityTooLarge"}, 413, "denied request: m"),
    ],
)
async def test_message_and_reason(api, fields, code, words):
    await install(api, policy({"expression": "false", **fields}), binding())
    answer = await create(api, config_map())
    assert answer.code == code
    assert answer.message.endswith(words)


async def test_warn_and_audit_let_the_write_pass(api, caplog):
    await install(api, policy({"expression": "false", "message": "m"}), binding("Warn", "Audit"))
    with caplog.at_level(logging.INFO):
        answer = await create(api, config_map())
    assert answer.code == 201
    assert answer.warnings == ("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m",)
    assert '"message": "m"' in caplog.text
    assert "CREATE configmaps default/c by 'system:admin'" in caplog.text


async def test_updates_patches_and_applied_configurations_are_checked_with_both_objects(api):
    grows = "oldObject == null || size(object.data) >= size(oldObject.data)"
    await install(api, policy(grows), binding())
    assert (await create(api, config_map(data={"a": "1"}))).code == 201
    assert (await send(api, "PUT", f"{PATH}/c", config_map(data={"b": "1", "c": "1"}))).code == 200
    patch = {"data": {"b": None}}
    refused = await send(api, "PATCH", f"{PATH}/c", patch, content_type="application/merge-patch+json")
    assert refused.code == 422
    configuration = config_map(data={"c": "2"})
    target = f"{PATH}/c?fieldManager=m&force=true"
    applied = await send(api, "PATCH", target, configuration, content_type="application/apply-patch+yaml")
    assert applied.code == 200


async def test_deletions_have_only_the_old_object(api):
    deletes = {**CONFIG_MAPS, "operations": ["DELETE"]}
    guarded = "object == null && !has(oldObject.data.guarded) && request.operation == 'DELETE'"
    await install(api, policy(guarded, rules=[deletes]), binding())
    await create(api, config_map("a", {"guarded": "yes"}))
    await create(api, config_map("b"))
    assert (await send(api, "DELETE", f"{PATH}/a")).code == 422
    assert (await send(api, "DELETE", f"{PATH}/b")).code == 200
    assert (await send(api, "DELETE", PATH)).code == 422
    assert (await send(api, "GET", f"{PATH}/a")).code == 200


async def test_a_dry_run_is_refused_too(api):
    await install(api, policy("!request.dryRun"), binding())
    assert (await send(api, "POST", f"{PATH}?dryRun=All", config_map())).code == 422
    assert (await create(api, config_map())).code == 201


@pytest.mark.parametrize(
    ("match", "is_refused"),
    [
        ({}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "x"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}}, False),
        ({"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["c"]}]}, False),
        ({"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["d"]}]}, True),
    ],
)
async def test_selectors_and_excluded_rules(api, match, is_refused):
    await create(api, namespace("team", team="a"))
    await install(api, policy("false", match=match), binding())
    answer = await create(api, config_map(labels={"app": "x"}, namespace="team"))
    assert (answer.code == 422) is is_refused


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["configmaps/status"]}, False),
        ({"resources": ["pods"]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"resourceNames": ["c"]}, True),
        ({"resourceNames": ["d"]}, False),
        ({"operations": ["UPDATE"]}, False),
    ],
)
async def test_rules(api, changes, is_refused):
    await install(api, policy("false", rules=[{**CONFIG_MAPS, **changes}]), binding())
    assert ((await create(api, config_map())).code == 422) is is_refused


async def test_a_binding_narrows_its_policy(api):
    only = {"resourceRules": [{**CONFIG_MAPS, "resourceNames": ["d"]}]}
    await install(api, policy("false"), binding(matchResources=only))
    assert (await create(api, config_map("c"))).code == 201
    assert (await create(api, config_map("d"))).code == 422


async def test_conditions_decide_before_validations(api):
    conditions = [
        {"name": "fails", "expression": "object.missing.field"},
        {"name": "named", "expression": "object.metadata.name == 'd'"},
    ]
    await install(api, policy("false", matchConditions=conditions), binding())
    assert (await create(api, config_map("c"))).code == 201
    failed = await create(api, config_map("d"))
    assert "resulted in error: no such key: missing" in failed.message


async def test_variables_are_evaluated_when_they_are_read(api):
    variables = [
        {"name": "prefix", "expression": "object.metadata.name.split('-')[0]"},
        {"name": "long", "expression": "variables.prefix + variables.prefix"},
        {"name": "broken", "expression": "object.missing"},
    ]
    check = (
        "variables.prefix == 'ok' || (variables.prefix == 'bad' && variables.broken == '') || variables.long == 'aa'"
    )
    await install(api, policy(check, variables=variables), binding())
    assert (await create(api, config_map("ok-1"))).code == 201
    assert (await create(api, config_map("a-1"))).code == 201
    assert 'composited variable "broken" fails' in (await create(api, config_map("bad-1"))).message


async def test_an_error_follows_the_failure_policy(api):
    await install(api, policy("object.missing == ''", failurePolicy="Ignore"), binding())
    assert (await create(api, config_map())).code == 201
    await install(api, policy("object.missing == ''", name="q"), binding(name="c", policy_name="q"))
    assert "resulted in error: no such key: missing" in (await create(api, config_map("d"))).message


async def test_an_error_with_the_action_warn_only_warns(api):
    await install(api, policy("object.missing == ''"), binding("Warn"))
    answer = await create(api, config_map())
    assert answer.code == 201
    assert "no such key: missing" in answer.warnings[0]


PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMITED = policy(
    "size(object.data) <= int(params.data.limit)",
    paramKind=PARAM_KIND,
    match={"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["limits", "limits2"]}]},
)


async def test_a_parameter_by_name(api):
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await install(api, LIMITED, binding(paramRef=reference))
    missing = await create(api, config_map())
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in missing.message
    await create(api, config_map("limits", {"limit": "1"}))
    assert (await create(api, config_map("a", {"1": "", "2": ""}))).code == 422
    assert (await create(api, config_map("b", {"1": ""}))).code == 201


async def test_parameters_by_selector_must_all_agree(api):
    reference = {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Allow"}
    await install(api, LIMITED, binding(paramRef=reference))
    assert (await create(api, config_map("a", {"1": "", "2": ""}))).code == 201
    await create(api, config_map("limits", {"limit": "5"}, {"limits": "yes"}))
    await create(api, config_map("limits2", {"limit": "1"}, {"limits": "yes"}))
    assert (await create(api, config_map("b", {"1": "", "2": ""}))).code == 422


async def test_a_parameter_in_the_namespace_of_the_request(api):
    await create(api, namespace("other"))
    await install(api, LIMITED, binding(paramRef={"name": "limits", "parameterNotFoundAction": "Allow"}))
    await create(api, config_map("limits", {"limit": "0"}))
    assert (await create(api, config_map("a", {"1": ""}))).code == 422
    assert (await create(api, config_map("a", {"1": ""}, namespace="other"))).code == 201


async def test_an_unknown_parameter_kind_is_an_error(api):
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing"}
    reference = {"name": "x", "parameterNotFoundAction": "Allow"}
    await install(api, policy("params == null", paramKind=unknown), binding(paramRef=reference))
    assert "paramKind kind `example.com/v1, Kind=Nothing` not known" in (await create(api, config_map())).message


async def test_request_namespace_object_and_authorizer(api):
    await create(api, namespace("team", team="a"))
    await create(api, cluster_role("edit-maps", rule("", "configmaps", "create"), rule("", "secrets", "get")))
    await create(api, role_binding("edit-maps", "ann"))
    checks = {
        "request.userInfo.username == 'ann' && 'system:authenticated' in request.userInfo.groups": 201,
        "namespaceObject.metadata.labels.team == 'a'": 201,
        "request.resource.resource == 'configmaps' && request.namespace == 'team' && request.name == 'c'": 201,
        "authorizer.group('').resource('secrets').namespace('team').check('get').allowed()": 201,
        "authorizer.group('').resource('secrets').check('delete').allowed()": 422,
        "authorizer.requestResource.check('create').allowed()": 201,
        "authorizer.requestResource.check('delete').allowed()": 422,
        "authorizer.path('/metrics').check('get').allowed()": 422,
        "authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').allowed()": 422,
    }
    for check, code in checks.items():
        await install(api, policy(check), binding())
        target = "/api/v1/namespaces/team/configmaps?dryRun=All"
        answer = await send(api, "POST", target, config_map(namespace="team"), by=user("ann"))
        assert answer.code == code, (check, answer.message)
        await send(api, "DELETE", f"/apis/{GROUP}/validatingadmissionpolicies/p")
        await send(api, "DELETE", f"/apis/{GROUP}/validatingadmissionpolicybindings/b")


async def test_policies_do_not_apply_to_policies(api):
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    await install(api, policy("false", rules=[everything]), binding())
    assert (await create(api, config_map())).code == 422
    assert (await send(api, "DELETE", f"/apis/{GROUP}/validatingadmissionpolicies/p")).code == 200
    assert (await create(api, config_map())).code == 201


async def test_another_version_of_the_kind_matches_unless_the_match_is_exact(api):
    rules = [
        {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta1"], "resources": ["localqueues"], "operations": ["*"]}
    ]
    await install(api, policy("object.apiVersion == 'kueue.x-k8s.io/v1beta1' && false", rules=rules), binding())
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"clusterQueue": "c"},
    }
    assert (await create(api, queue)).code == 422
    exact = policy("false", rules=rules, match={"matchPolicy": "Exact"})
    await send(api, "PUT", f"/apis/{GROUP}/validatingadmissionpolicies/p", exact)
    assert (await create(api, queue)).code == 201


async def test_the_scale_subresource_is_a_scale(api):
    rules = [
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"], "operations": ["UPDATE"]}
    ]
    await install(api, policy("object.kind == 'Scale' && object.spec.replicas < 5", rules=rules), binding())
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "d", "namespace": "default"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    assert (await create(api, deployment)).code == 201
    target = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    for replicas, code in ((3, 200), (9, 422)):
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}
        assert (await send(api, "PUT", target, scale)).code == code


@pytest.mark.parametrize(
    ("part", "field", "words"),
    [
        (policy("object.("), "spec.validations[0].expression", "compilation failed"),
        (policy("1 + 1"), "spec.validations[0].expression", "must evaluate to bool"),
        (policy("params.x"), "spec.validations[0].expression", "undeclared reference to 'params"),
        (policy("variables.x"), "spec.validations[0].expression", "undefined field 'x'"),
        (
            policy({"expression": "true", "messageExpression": "1"}),
            "spec.validations[0].messageExpression",
            "must evaluate to string",
        ),
        (
            policy({"expression": "true", "messageExpression": "string(authorizer)"}),
            "spec.validations[0].messageExpression",
            "undeclared",
        ),
        (policy({"expression": "true", "reason": "Gone"}), "spec.validations[0].reason", "supported values"),
        (policy("true", variables=[{"name": "in", "expression": "1"}]), "spec.variables[0].name", "CEL identifier"),
        (
            policy("true", matchConditions=[{"name": "x", "expression": "'a'"}]),
            "spec.matchConditions[0].expression",
            "must evaluate to bool",
        ),
        (
            policy("true", auditAnnotations=[{"key": "k", "valueExpression": "1"}]),
            "spec.auditAnnotations[0].valueExpression",
            "string, null_type",
        ),
        (
            policy("true", rules=[{**CONFIG_MAPS, "operations": ["EAT"]}]),
            "spec.matchConstraints.resourceRules[0].operations[0]",
            "supported values",
        ),
        (
            policy("true", rules=[{**CONFIG_MAPS, "resources": ["*", "pods"]}]),
            "spec.matchConstraints.resourceRules[0].resources",
            "must not specify other",
        ),
        (policy("true", rules=[]), "spec.matchConstraints.resourceRules", ""),
        (policy(), "spec.validations", "at least one item"),
        (binding("Deny", "Warn"), "spec.validationActions", "both Deny and Warn"),
        (binding(paramRef={"name": "x"}), "spec.paramRef.parameterNotFoundAction", ""),
        (binding(paramRef={"parameterNotFoundAction": "Deny"}), "spec.paramRef", "one of name or selector"),
        (binding(policy_name=""), "spec.policyName", ""),
    ],
)
async def test_a_faulty_policy_is_refused_with_its_field(api, part, field, words):
    answer = await create(api, part)
    assert answer.code == 422
    causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
    assert field in causes, causes
    assert words in causes[field]


async def test_defaults(api):
    await install(api, policy("true"))
    spec = (await send(api, "GET", f"/apis/{GROUP}/validatingadmissionpolicies/p")).body["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert spec["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert spec["matchConstraints"]["resourceRules"][0]["scope"] == "*"
