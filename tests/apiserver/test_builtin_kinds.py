"""Kubernetes' own kinds over the API: how their lists merge, and which fields they have."""

import pytest

from pykueue.api import registry
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType, WriteOptions

SCHEME = registry.scheme()
NAMESPACES = SCHEME.for_path("", "v1", "namespaces").resource
PODS = SCHEME.for_path("", "v1", "pods").resource
SERVICE_ACCOUNTS = SCHEME.for_path("", "v1", "serviceaccounts").resource
POLICIES = SCHEME.for_path("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies").resource
CLAIMS = SCHEME.for_path("resource.k8s.io", "v1", "resourceclaims").resource
STRICT = WriteOptions(field_validation="Strict")


@pytest.fixture
async def client():
    core = Core(Store(MemoryLog()), registry.scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    yield client
    await core.stop()


def policy(*expressions):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    validations = [{"expression": expression} for expression in expressions]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
    }


def service_account(*secrets):
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "s"},
        "imagePullSecrets": [{"name": secret} for secret in secrets],
    }


def managed_fields(obj):
    (entry,) = obj["metadata"]["managedFields"]
    return entry["fieldsV1"]


async def test_a_strategic_patch_replaces_the_validations_of_a_policy(client):
    await client.create(POLICIES, policy("true", "1 == 1"))
    patched = await client.patch(POLICIES, "p", "", policy("2 == 2"), patch_type=PatchType.STRATEGIC)
    assert patched["spec"]["validations"] == [{"expression": "2 == 2"}]


async def test_apply_replaces_the_pull_secrets_of_a_service_account(client):
    for secrets in (["a"], ["b"]):
        options = WriteOptions(field_manager=secrets[0], force=True)
        account = await client.patch(
            SERVICE_ACCOUNTS, "s", "default", service_account(*secrets), patch_type=PatchType.APPLY, options=options
        )
    assert account["imagePullSecrets"] == [{"name": "b"}]


async def test_a_pod_may_use_resource_claims(client):
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpus", "request": "one"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpus", "resourceClaimName": "gpus"}]}
    pod = await client.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, options=STRICT)
    assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpus", "request": "one"}]


async def test_a_resource_claim_has_its_own_type(client):
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    claim = {"metadata": {"name": "gpus", "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}
    assert (await client.create(CLAIMS, claim, options=STRICT))["spec"]["devices"]["requests"] == [request]


async def test_structs_that_go_always_writes_have_no_owner(client):
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    spec = {"containers": [container], "securityContext": {"runAsUser": 1}}
    pod = await client.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    fields = managed_fields(pod)["f:spec"]
    assert ("." in fields, "." in fields["f:containers"], "." in fields["f:securityContext"]) == (False, False, True)
    assert "." in fields["f:containers"]['k:{"name":"c"}']["f:resources"]


async def test_owner_references_are_owned_as_a_whole(client):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    metadata = {"name": "p", "namespace": "default", "ownerReferences": [owner]}
    pod = await client.create(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert managed_fields(pod)["f:metadata"]["f:ownerReferences"] == {".": {}, 'k:{"uid":"u"}': {}}
