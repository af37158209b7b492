"""Webhook configurations: servers are asked over HTTPS, as Kubernetes asks them."""

import asyncio

import pytest
from aiohttp import web
from tests.apiserver.api_requests import create, send
from tests.apiserver.test_validating_policies import CONFIG_MAPS, GROUP, PATH, config_map, install
from tests.apiserver.webhook_server import WebhookServer

from pykueue.api import reserved_keys, resources
from pykueue.apiserver.http import listener
from pykueue.apiserver.http.messages import HttpResponse
from pykueue.apiserver.store.rows import StoreKey

VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
MERGE = "application/merge-patch+json"


def webhook(client, name="hook.example.com", **fields):
    fixed = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [CONFIG_MAPS], "timeoutSeconds": 5}
    return {"name": name, "clientConfig": client, **fixed, **fields}


def configuration(*webhooks, kind=VALIDATING, name="hooks"):
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "webhooks": list(webhooks)}


@pytest.fixture
async def server(tmp_path):
    answers = {
        "/allow": lambda _: {"warnings": ["careful"]},
        "/deny": lambda request: {"allowed": False, "status": {"message": f"not {request['name']}", "code": 403}},
        "/silent": lambda _: {"allowed": False},
        "/label": lambda _: {"patch": [{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}]},
        "/count": _count,
        "/status": lambda _: web.Response(status=503, text="no"),
        "/redirect": lambda _: web.Response(status=302, headers={"Location": "/allow"}),
        "/garbage": lambda _: web.Response(text="{"),
        "/other-uid": lambda _: {"uid": "other"},
        "/no-type": lambda _: {"patch": "W10="},
        "/bad-patch": lambda _: {"patch": [{"op": "remove", "path": "/none"}]},
        "/rename": lambda _: {"patch": [{"op": "replace", "path": "/metadata/name", "value": "other"}]},
        "/stuck": _stuck,
    }
    async with WebhookServer(tmp_path, answers) as server:
        yield server


def _count(request):
    """Set `data.count` to the number of entries."""
    count = str(len(request["object"].get("data") or {}))
    return {
        "patch": [{"op": "add", "path": "/data", "value": {**(request["object"].get("data") or {}), "count": count}}]
    }


async def _stuck(_request):
    await asyncio.Event().wait()


async def test_an_allowed_write_and_its_review(api, server):
    await install(api, configuration(webhook(server.client("/allow"))))
    answer = await create(api, config_map(data={"a": "1"}))
    assert (answer.code, answer.warnings) == (201, ("careful",))
    (request,) = server.requests
    assert request["operation"] == "CREATE"
    assert request["object"]["data"] == {"a": "1"}
    assert request["oldObject"] is None
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["userInfo"]["username"] == "system:admin"
    assert (request["name"], request["namespace"], request["dryRun"]) == ("c", "default", False)
    assert request["object"]["metadata"]["uid"] == answer.body["metadata"]["uid"]


async def test_a_refusal(api, server):
    await install(api, configuration(webhook(server.client("/deny"))))
    answer = await create(api, config_map())
    assert answer.code == 403
    assert answer.message == 'admission webhook "hook.example.com" denied the request: not c'
    assert (await send(api, "GET", f"{PATH}/c")).code == 404
    silent = configuration(webhook(server.client("/silent")))
    await send(api, "PUT", f"/apis/{GROUP}/validatingwebhookconfigurations/hooks", silent)
    assert (await create(api, config_map())).message.endswith("denied the request without explanation")


async def test_updates_patches_and_deletions_are_reviewed(api, server):
    await create(api, config_map(data={"a": "1"}))
    rule = {**CONFIG_MAPS, "operations": ["*"]}
    await install(api, configuration(webhook(server.client("/allow"), rules=[rule])))
    assert (await send(api, "PUT", f"{PATH}/c", config_map(data={"a": "2"}))).code == 200
    assert (await send(api, "PATCH", f"{PATH}/c", {"data": {"a": "3"}}, content_type=MERGE)).code == 200
    assert (await send(api, "DELETE", f"{PATH}/c")).code == 200
    assert [request["operation"] for request in server.requests] == ["UPDATE", "UPDATE", "DELETE"]
    assert server.requests[1]["oldObject"]["data"] == {"a": "2"}
    assert server.requests[2]["object"] is None


async def test_a_deletion_is_refused(api, server):
    await create(api, config_map())
    await install(
        api, configuration(webhook(server.client("/deny"), rules=[{**CONFIG_MAPS, "operations": ["DELETE"]}]))
    )
    assert (await send(api, "DELETE", f"{PATH}/c")).code == 403
    assert (await send(api, "DELETE", PATH)).code == 403
    assert (await send(api, "GET", f"{PATH}/c")).code == 200


async def test_a_mutating_webhook_changes_what_is_validated_and_stored(api, server):
    await install(api, configuration(webhook(server.client("/label")), kind=MUTATING, name="m"))
    await install(api, configuration(webhook(server.client("/allow"))))
    answer = await create(api, config_map())
    assert answer.body["metadata"]["labels"] == {"hooked": "yes"}
    assert server.paths == ["/label", "/allow"]
    assert server.requests[1]["object"]["metadata"]["labels"] == {"hooked": "yes"}


async def test_a_generated_name_is_the_same_in_every_review(api, server):
    await install(api, configuration(webhook(server.client("/label")), kind=MUTATING, name="m"))
    await install(api, configuration(webhook(server.client("/allow"))))
    obj = config_map()
    obj["metadata"] = {"generateName": "c-", "namespace": "default"}
    body = (await send(api, "POST", PATH, obj)).body
    names = {request["object"]["metadata"]["name"] for request in server.requests}
    assert names == {body["metadata"]["name"]}


@pytest.mark.parametrize(("policy", "count"), [("Never", "0"), ("IfNeeded", "2")])
async def test_reinvocation(api, server, policy, count):
    """The first webhook counts entries. A later one adds an entry, so the first may run again."""
    counting = webhook(server.client("/count"), "count.example.com", reinvocationPolicy=policy)
    adding = webhook(server.client("/add"), "add.example.com")
    server.answers["/add"] = lambda _: {"patch": [{"op": "add", "path": "/data/more", "value": "x"}]}
    await install(api, configuration(counting, adding, kind=MUTATING))
    body = (await create(api, config_map())).body
    assert body["data"] == {"count": count, "more": "x"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/status", "failed to call webhook: the server answered with status 503"),
        ("/redirect", "failed to call webhook: the server answered with status 302"),
        ("/garbage", "failed to call webhook"),
        ("/other-uid", "received invalid webhook response: expected response.uid="),
    ],
)
async def test_a_webhook_that_fails_follows_its_failure_policy(api, server, path, words):
    await install(api, configuration(webhook(server.client(path))))
    answer = await create(api, config_map())
    assert answer.code == 500
    assert answer.message.startswith('Internal error occurred: failed calling webhook "hook.example.com": ')
    assert words in answer.message
    ignoring = configuration(webhook(server.client(path), failurePolicy="Ignore"))
    await send(api, "PUT", f"/apis/{GROUP}/validatingwebhookconfigurations/hooks", ignoring)
    assert (await create(api, config_map())).code == 201


@pytest.mark.parametrize(("path", "code"), [("/no-type", 500), ("/bad-patch", 500), ("/rename", 400)])
async def test_a_faulty_patch_stores_nothing(api, server, path, code):
    await install(api, configuration(webhook(server.client(path)), kind=MUTATING))
    assert (await create(api, config_map())).code == code
    assert (await send(api, "GET", f"{PATH}/c")).code == 404


async def test_a_certificate_of_another_authority_is_not_trusted(api, server):
    client = server.client("/allow")
    del client["caBundle"]
    await install(api, configuration(webhook(client)))
    answer = await create(api, config_map())
    assert answer.code == 500
    assert "certificate" in answer.message.lower()
    assert server.requests == []


async def test_a_slow_webhook_blocks_nobody_else(api, server):
    only = {"matchLabels": {"slow": "yes"}}
    await install(api, configuration(webhook(server.client("/stuck"), objectSelector=only, timeoutSeconds=1)))
    slow = asyncio.create_task(create(api, config_map("slow", labels={"slow": "yes"})))
    await asyncio.wait_for(server.has_request.wait(), 10)
    assert (await create(api, config_map("fast"))).code == 201
    assert not slow.done()
    answer = await slow
    assert answer.code == 500
    assert "context deadline exceeded" in answer.message


async def test_an_object_that_changed_meanwhile_is_reviewed_again(api, server):
    """While the webhook thinks, somebody else changes the object: a patch applies to the new one."""
    await create(api, config_map(data={"a": "1"}))
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request):
        if request["object"]["data"].get("patched") and not asked.is_set():
            asked.set()
            await go_on.wait()
        return {}

    server.answers["/wait"] = wait
    await install(api, configuration(webhook(server.client("/wait"))))
    patching = asyncio.create_task(send(api, "PATCH", f"{PATH}/c", {"data": {"patched": "x"}}, content_type=MERGE))
    await asyncio.wait_for(asked.wait(), 10)
    assert (await send(api, "PATCH", f"{PATH}/c", {"data": {"b": "2"}}, content_type=MERGE)).code == 200
    go_on.set()
    body = (await patching).body
    assert body["data"] == {"a": "1", "b": "2", "patched": "x"}
    assert server.requests[-1]["object"]["data"] == body["data"]


async def test_conditions_and_dry_runs(api, server):
    conditions = [{"name": "d", "expression": "object.metadata.name == 'd'"}]
    await install(api, configuration(webhook(server.client("/deny"), matchConditions=conditions)))
    assert (await create(api, config_map("c"))).code == 201
    assert (await create(api, config_map("d"))).code == 403
    assert (await send(api, "POST", f"{PATH}?dryRun=All", config_map("d"))).code == 403
    assert server.requests[-1]["dryRun"] is True


async def test_webhooks_do_not_review_webhooks(api, server):
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    await install(api, configuration(webhook(server.client("/deny"), rules=[everything])))
    assert (await create(api, config_map())).code == 403
    assert (await send(api, "DELETE", f"/apis/{GROUP}/validatingwebhookconfigurations/hooks")).code == 200
    assert (await create(api, config_map())).code == 201


async def install_service(api, server, namespace_name="default"):
    """A webhook that denies, behind a service without pods."""
    service = {"name": "hook", "namespace": namespace_name, "path": "/deny", "port": 443}
    await install(api, configuration(webhook({"service": service, "caBundle": server.authority})))
    assert 'service "hook" not found' in (await create(api, config_map())).message
    spec = {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": "https"}]}
    metadata = {"name": "hook", "namespace": namespace_name}
    await create(api, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


async def create_ready_pod(api, server, namespace_name="default", annotations=None):
    container = {"name": "c", "image": "i", "ports": [{"name": "https", "containerPort": server.port}]}
    metadata = {"name": "hook", "namespace": namespace_name, "labels": {"app": "hook"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    metadata["annotations"] = annotations or {}
    await api.client().create(resources.POD, pod, namespace_name)
    status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    target = f"/api/v1/namespaces/{namespace_name}/pods/hook/status"
    assert (await send(api, "PATCH", target, {"status": status}, content_type=MERGE)).code == 200


async def test_a_service_leads_to_a_ready_pod(api, server):
    await install_service(api, server)
    assert 'no endpoints available for service "hook"' in (await create(api, config_map())).message
    await create_ready_pod(api, server)
    assert (await create(api, config_map())).message.endswith("denied the request: not c")


@pytest.mark.parametrize(("namespace_name", "code"), [("kueue-system", 201), ("default", 403)])
async def test_a_webhook_of_a_component_is_not_called(api, server, namespace_name, code):
    """Kueue's own manifests may be applied: what their webhooks check, this API checks itself.

    Components are in their namespace only.
    """
    await install_service(api, server, namespace_name)
    component = {reserved_keys.COMPONENT: "kueue-controller-manager"}
    await create_ready_pod(api, server, namespace_name, component)
    assert (await create(api, config_map())).code == code


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"clientConfig": {"url": "http://x/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://u:p@x/"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"url": "https://x/?a=b"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "https://x", "caBundle": "eA=="}}, "webhooks[0].clientConfig.caBundle"),
        (
            {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "x"}}},
            "webhooks[0].clientConfig.service.path",
        ),
        ({"name": "short"}, "webhooks[0].name"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"matchConditions": [{"name": "x", "expression": "1"}]}, "webhooks[0].matchConditions[0].expression"),
    ],
)
async def test_a_faulty_configuration_is_refused_with_its_field(api, fields, field):
    answer = await create(api, configuration(webhook({"url": "https://x/"}) | fields))
    assert answer.code == 422
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}


@pytest.mark.parametrize(
    ("kind", "plural", "fields"),
    [
        (VALIDATING, "validatingwebhookconfigurations", {"webhooks": [{"name": "w", "rules": [CONFIG_MAPS]}]}),
        (
            MUTATING,
            "mutatingwebhookconfigurations",
            {"webhooks": [{"name": "w", "rules": [CONFIG_MAPS], "matchConditions": [{"expression": "("}]}]},
        ),
    ],
)
async def test_what_an_older_version_stored_unchecked_fails_closed_and_can_be_removed(api, kind, plural, fields):
    group, _, version = GROUP.rpartition("/")
    obj = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "old", "uid": "1"}, **fields}
    stored = api.core.store.put(StoreKey(group, plural, "", "old"), obj)
    await api.core.store.settled(stored.revision)
    assert (await create(api, config_map())).code in (403, 500)
    assert (await send(api, "DELETE", f"/apis/{GROUP}/{plural}/old")).code == 200
    assert (await create(api, config_map())).code == 201


ANYTHING = (None, 5, -1, True, "x", "9" * 5000, [], [5], ["x" * 100_000], {}, {"a": 5}, {"a": "x" * 100_000}, 1e308)


@pytest.mark.parametrize("kind", [VALIDATING, MUTATING])
@pytest.mark.parametrize(
    "field", ["allowed", "uid", "status", "patch", "patchType", "warnings", "auditAnnotations", "a"]
)
async def test_a_webhook_may_answer_anything(api, server, kind, field):
    """Its answer is a refusal with its name, or a write; never an error of ours."""
    await install(api, configuration(webhook(server.client("/anything")), kind=kind))
    for value in ANYTHING:
        server.answers["/anything"] = lambda _, value=value: web.json_response(answer(server, field, value))
        created = await create(api, config_map("c"))
        assert created.code in (201, 400, 500), value
        assert created.code == 201 or "hook.example.com" in created.message, value
        if created.code == 201:
            await send(api, "DELETE", f"{PATH}/c")


def answer(server, field, value):
    response = {"uid": server.requests[-1]["uid"], "allowed": True, field: value}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


def test_long_warnings_are_cut():
    response = HttpResponse(body={}, warnings=tuple(f"{number} {'x' * 1000}" for number in range(100)))
    assert sum(map(len, listener._headers(response).getall("Warning"))) < 8192
    assert len(listener._headers(HttpResponse(body={}, warnings=("x" * 1000,))).getall("Warning")[0]) > 1000
