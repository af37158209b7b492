"""Components of AppWrappers need the rights of whoever writes the AppWrapper."""

import pytest
from tests.apiserver.api_requests import binding, cluster_role, create, namespace, rule, send, user

WRITER = user("writer")
WRAPPERS = rule("workload.codeflare.dev", "appwrappers", "create update patch get")


def wrapper(template, name="wrap"):
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"suspend": True, "components": [{"template": template}]},
    }


def component(api_version, kind, **metadata):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"} | metadata}


@pytest.fixture
async def as_writer(api):
    """A function that creates an AppWrapper as a user who may create AppWrappers and ConfigMaps."""
    await create(api, namespace("ml"))
    await create(api, cluster_role("writer", WRAPPERS, rule("", "configmaps", "create")))
    await create(api, binding("writer", "writer"))

    async def write(template):
        return await create(api, wrapper(template), by=WRITER)

    return write


async def test_a_component_that_the_user_may_create_is_accepted(as_writer):
    assert (await as_writer(component("v1", "ConfigMap"))).code == 201


async def test_a_component_that_the_user_may_not_create_is_refused(as_writer):
    answer = await as_writer(component("v1", "Secret"))
    assert answer.code == 403
    assert 'spec.components[0].template: User "writer" cannot create resource "secrets"' in answer.message


@pytest.mark.parametrize("kind", ["ClusterRoleBinding", "RoleBinding", "Role"])
async def test_roles_cannot_be_wrapped(as_writer, kind):
    answer = await as_writer(component("rbac.authorization.k8s.io/v1", kind))
    assert (answer.code, "spec.components[0].template.kind: Unsupported value" in answer.message) == (422, True)


async def test_a_component_stays_in_the_namespace_of_its_wrapper(as_writer):
    answer = await as_writer(component("v1", "ConfigMap", namespace="kube-system"))
    assert (answer.code, "components are created in namespace ml" in answer.message) == (422, True)


@pytest.mark.parametrize("value", ["text", 1, True, None, [], ["text"], {}, {"kind": []}, {"apiVersion": {}}])
@pytest.mark.parametrize("field", ["template", "metadata", "namespace"])
async def test_any_json_is_refused_where_an_object_is_expected(as_writer, field, value):
    config_map = component("v1", "ConfigMap")
    templates = {"template": value, "metadata": config_map | {"metadata": value}, "namespace": config_map}
    if field == "namespace":
        config_map["metadata"]["namespace"] = value
    is_object = field == "metadata" and isinstance(value, dict)
    assert (await as_writer(templates[field])).code == (201 if is_object else 422)


async def test_a_later_change_of_a_component_is_checked_too(api, as_writer):
    await as_writer(component("v1", "ConfigMap"))
    path = "/apis/workload.codeflare.dev/v1beta2/namespaces/ml/appwrappers/wrap"
    patch = {"spec": {"components": [{"template": component("v1", "Secret")}]}}
    answer = await send(api, "PATCH", path, patch, by=WRITER, content_type="application/merge-patch+json")
    assert answer.code == 403
