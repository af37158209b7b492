import asyncio
import threading

import msgspec
from tests.apiserver.api_requests import create, send

from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.http import openapi as openapi_module
from pykueue.apiserver.http.discovery import Discovery, version_rank
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource, Hooks
from pykueue.apiserver.http.openapi import OpenApi


def kind(name, group="kueue.x-k8s.io", version="v1beta2", **more):
    return Kind(group=group, version=version, kind=name, plural=f"{name.lower()}s", namespaced=True, **more)


def discovery_of(*kinds):
    scheme, hooks = Scheme(kinds), Hooks()
    return scheme, hooks, Discovery(scheme, hooks)


def read(document):
    return msgspec.json.decode(document[0])


def test_stable_versions_are_preferred_to_newer_unstable_ones():
    assert sorted(["v2beta1", "v1", "v1beta2", "v1beta1", "v2", "v1alpha9", "odd"], key=version_rank) == [
        "odd",
        "v1alpha9",
        "v1beta1",
        "v1beta2",
        "v2beta1",
        "v1",
        "v2",
    ]


def test_the_newest_version_of_a_group_is_preferred():
    _, _, discovery = discovery_of(kind("Workload", version="v1beta1"), kind("Workload"))
    (group,) = read(discovery.document("/apis"))["groups"]
    assert group["preferredVersion"]["version"] == "v1beta2"


def test_resources_have_their_subresources_and_short_names():
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    _, _, discovery = discovery_of(kind("Workload", short_names=("wl",), scale=scale))
    resources = read(discovery.document("/apis/kueue.x-k8s.io/v1beta2"))["resources"]
    assert [resource["name"] for resource in resources] == ["workloads", "workloads/status", "workloads/scale"]
    assert resources[0]["shortNames"] == ["wl"]


def test_aggregated_discovery_nests_subresources():
    _, _, discovery = discovery_of(kind("Workload"))
    document = read(discovery.aggregated("/apis", "v2"))
    (resource,) = document["items"][0]["versions"][0]["resources"]
    assert [subresource["subresource"] for subresource in resource["subresources"]] == ["status"]


def test_the_core_group_is_apart():
    _, _, discovery = discovery_of(kind("Pod", group="", version="v1"), kind("Workload"))
    core, named = read(discovery.aggregated("/api", "v2")), read(discovery.aggregated("/apis", "v2"))
    assert [len(core["items"]), len(named["items"])] == [1, 1]


def test_an_extra_group_is_discovered_at_once():
    _, hooks, discovery = discovery_of(kind("Workload"))
    assert discovery.document("/apis/visibility.kueue.x-k8s.io/v1beta2") is None

    async def handler(call):
        raise NotImplementedError

    pending = ExtraResource(
        name="clusterqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=False, verbs=("get",)
    )
    hooks.add_group(
        ExtraGroup(group="visibility.kueue.x-k8s.io", version="v1beta2", resources=(pending,), handler=handler)
    )
    document = read(discovery.document("/apis/visibility.kueue.x-k8s.io/v1beta2"))
    assert document["resources"][0]["name"] == "clusterqueues/pendingworkloads"


def test_a_new_kind_changes_the_etag():
    scheme, _, discovery = discovery_of(kind("Workload"))
    before = discovery.aggregated("/apis", "v2")[1]
    scheme.register(kind("Cohort"))
    discovery.changed()
    assert discovery.aggregated("/apis", "v2")[1] != before


async def test_openapi_says_that_a_patch_may_be_validated_strictly():
    openapi = OpenApi(Scheme([kind("Workload")]))
    document = read(await openapi.document("apis/kueue.x-k8s.io/v1beta2"))
    patch = document["paths"]["/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


async def test_openapi_schemas_name_their_kind():
    openapi = OpenApi(Scheme([kind("Workload")]))
    schemas = read(await openapi.document("apis/kueue.x-k8s.io/v1beta2"))["components"]["schemas"]
    schema = schemas["io.x-k8s.kueue.v1beta2.Workload"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "Workload"}
    ]


async def test_every_openapi_document_of_the_index_exists():
    openapi = OpenApi(Scheme([kind("Workload"), kind("Pod", group="", version="v1")]))
    paths = msgspec.json.decode(await openapi.index())["paths"]
    assert paths
    for path in paths:
        assert await openapi.document(path)


async def test_an_openapi_document_that_is_made_while_kinds_change_is_not_kept(monkeypatch):
    scheme = Scheme([kind("Workload")])
    openapi = OpenApi(scheme)
    may_go_on, is_made = threading.Event(), openapi_module._v2

    def slow(kinds):
        may_go_on.wait(10)
        return is_made(kinds)

    monkeypatch.setattr(openapi_module, "_v2", slow)
    first = asyncio.ensure_future(openapi.v2())
    await asyncio.sleep(0)
    scheme.register(kind("Cohort"))
    openapi.changed()
    may_go_on.set()
    await first
    assert "Cohort" in str(await openapi.v2())


async def test_an_older_version_reads_what_the_current_one_wrote(api):
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": spec,
    }
    assert (await create(api, claim)).code == 201
    answer = await send(api, "GET", "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims/c")
    (request,) = answer.body["spec"]["devices"]["requests"]
    assert (request["deviceClassName"], request["count"]) == ("gpu", 2)
