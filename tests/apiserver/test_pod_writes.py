"""What may change in a pod, by whom, and how: only a binding sets the node, only a resize resources."""

import copy

import pytest

from pykueue.api import registry, reserved_keys, resources
from pykueue.api.errors import ApiError
from pykueue.api.rules.jobs import job_kinds
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType

JANE = UserInfo(name="jane", groups=("system:authenticated",))
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}
GATED = copy.deepcopy(POD) | {"spec": POD["spec"] | {"schedulingGates": [{"name": "a.io/gate"}]}}
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
}


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), registry.scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(resources.NAMESPACE, {"metadata": {"name": "default"}})
    yield core
    await core.stop()


@pytest.fixture
def system(core):
    return LocalClient(core, core.scheme)


@pytest.fixture
def jane(core):
    return LocalClient(core, core.scheme, user=JANE)


async def refusal(call):
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value


def with_spec(**fields):
    return POD | {"spec": copy.deepcopy(POD["spec"]) | fields}


def bind(client, node="n1"):
    return client.patch(resources.POD, "p", "default", {"spec": {"nodeName": node}}, subresource="binding")


# The node


@pytest.mark.parametrize("pod", [POD, GATED], ids=["free", "gated"])
async def test_no_update_sets_the_node(jane, pod):
    await jane.create(resources.POD, pod)
    error = await refusal(jane.patch(resources.POD, "p", "default", {"spec": {"nodeName": "n1"}}))
    assert (error.code, "pod updates may not change fields other than" in error.message) == (422, True)


async def test_a_gated_pod_is_not_created_on_a_node(jane):
    error = await refusal(jane.create(resources.POD, GATED | {"spec": GATED["spec"] | {"nodeName": "n1"}}))
    assert "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared" in error.message


async def test_a_gated_pod_is_not_bound(system):
    await system.create(resources.POD, GATED)
    error = await refusal(bind(system))
    assert (error.code, "pod p has non-empty .spec.schedulingGates" in error.message) == (409, True)


async def test_a_pod_is_bound_once(system):
    await system.create(resources.POD, POD)
    bound = await bind(system)
    assert bound["spec"]["nodeName"] == "n1"
    error = await refusal(bind(system, "n2"))
    assert (error.code, 'already assigned to node "n1"' in error.message) == (409, True)


async def test_a_deleted_pod_is_not_bound(system):
    await system.create(resources.POD, POD | {"metadata": POD["metadata"] | {"finalizers": ["a.io/keep"]}})
    await system.delete(resources.POD, "p", "default")
    error = await refusal(bind(system))
    assert (error.code, "is being deleted" in error.message) == (409, True)


async def test_a_binding_changes_nothing_else(system):
    await system.create(resources.POD, POD)
    patch = {"spec": {"nodeName": "n1", "containers": []}, "metadata": {"labels": {"a": "b"}}}
    bound = await system.patch(resources.POD, "p", "default", patch, subresource="binding")
    assert (bound["spec"]["nodeName"], len(bound["spec"]["containers"])) == ("n1", 1)
    assert "labels" not in bound["metadata"]


# Resources


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_no_update_changes_resources(jane, subresource):
    await jane.create(resources.POD, POD)
    containers = [POD["spec"]["containers"][0] | {"resources": {"requests": {"cpu": "50"}}}]
    call = jane.patch(resources.POD, "p", "default", {"spec": {"containers": containers}}, subresource=subresource)
    if subresource:
        assert (await call)["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
    else:
        assert (await refusal(call)).code == 422


def resized(**requests):
    return {"spec": {"containers": [POD["spec"]["containers"][0] | {"resources": {"requests": requests}}]}}


async def test_a_resize_makes_a_pod_smaller(jane):
    await jane.create(resources.POD, POD)
    patch = resized(cpu="500m", memory="1Gi")
    pod = await jane.patch(resources.POD, "p", "default", patch, patch_type=PatchType.STRATEGIC, subresource="resize")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({"cpu": "2", "memory": "1Gi"}, "may not grow from 1 to 2"),
        ({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}, "only cpu and memory resources are mutable"),
        ({"cpu": "1"}, "resource requests cannot be removed"),
        ({"cpu": "-1", "memory": "1Gi"}, "must be greater than or equal to 0"),
    ],
)
async def test_a_resize_never_takes_more_than_was_admitted(jane, requests, expected):
    await jane.create(resources.POD, POD)
    call = jane.patch(resources.POD, "p", "default", resized(**requests), subresource="resize")
    assert expected in (await refusal(call)).message


async def test_a_resize_changes_resources_only(jane):
    await jane.create(resources.POD, POD)
    patch = {"spec": {"containers": [{"name": "other", "image": "x"}]}}
    error = await refusal(jane.patch(resources.POD, "p", "default", patch, subresource="resize"))
    assert "containers may not be renamed or reordered on resize" in error.message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"overhead": {"cpu": "-1900m"}}, "must be greater than or equal to 0"),
        ({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        ({"runtimeClassName": "kata", "overhead": {"cpu": "1m"}}, "doesn't match RuntimeClass's defined Overhead"),
        ({"resources": {"requests": {"cpu": "10m"}}}, "must be greater than or equal to aggregate container requests"),
    ],
)
async def test_a_pod_requests_what_it_uses(system, jane, fields, expected):
    await system.create(resources.RUNTIME_CLASS, RUNTIME_CLASS)
    assert expected in (await refusal(jane.create(resources.POD, with_spec(**fields)))).message


async def test_a_runtime_class_sets_overhead_and_placement(system, jane):
    await system.create(resources.RUNTIME_CLASS, RUNTIME_CLASS)
    spec = (await jane.create(resources.POD, with_spec(runtimeClassName="kata")))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"vm": "yes"})
    assert {"key": "vm", "operator": "Exists"} in spec["tolerations"]


# Gates, tolerations, containers


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"schedulingGates": [{"name": "b.io/other"}]}, "only deletion is allowed"),
        ({"nodeSelector": {"a": "c"}}, "only additions to spec.nodeSelector are allowed"),
        ({"tolerations": None}, "existing toleration can not be modified"),
        ({"containers": [], "initContainers": []}, "pod updates may not add or remove containers"),
        ({"hostNetwork": True}, "pod updates may not change fields other than"),
        ({"volumes": [{"name": "a", "emptyDir": {}}]}, "pod updates may not change fields other than"),
        ({"ephemeralContainers": [{"name": "e", "image": "x"}]}, "pod updates may not change fields other than"),
        ({"overhead": {"cpu": "1"}}, "pod updates may not change fields other than"),
    ],
)
async def test_an_update_keeps_the_rest(jane, patch, expected):
    await jane.create(resources.POD, GATED | {"spec": GATED["spec"] | {"nodeSelector": {"a": "b"}}})
    assert expected in (await refusal(jane.patch(resources.POD, "p", "default", {"spec": patch}))).message


async def test_a_gated_pod_may_be_restricted(jane):
    await jane.create(resources.POD, GATED)
    pod = await jane.patch(resources.POD, "p", "default", {"spec": {"nodeSelector": {"a": "b"}}})
    assert pod["spec"]["nodeSelector"] == {"a": "b"}
    pod = await jane.patch(resources.POD, "p", "default", {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in pod["spec"]


# Reserved keys


RESERVED = {
    f"pykueue.dev/{name}"
    for name in ("gpu-indexes", "group", "local-names", "local-ports", "mirror", "memory-limit", "default-queues")
}


def test_the_documented_keys_are_reserved():
    assert reserved_keys.RESERVED >= RESERVED


@pytest.mark.parametrize("key", sorted(RESERVED | reserved_keys.RESERVED))
async def test_only_components_write_reserved_keys(system, jane, key):
    annotated = POD | {"metadata": POD["metadata"] | {"annotations": {key: "0,1"}}}
    error = await refusal(jane.create(resources.POD, annotated))
    assert (error.code, f"metadata.annotations[{key}]: Forbidden" in error.message) == (422, True)
    await jane.create(resources.POD, POD)
    patch = {"metadata": {"annotations": {key: "0"}}}
    for subresource in ("", "status"):
        call = jane.patch(resources.POD, "p", "default", patch, subresource=subresource)
        assert (await refusal(call)).code == 422
    await system.patch(resources.POD, "p", "default", patch)
    for change in ({key: "1"}, {key: None}):
        call = jane.patch(resources.POD, "p", "default", {"metadata": {"annotations": change}})
        assert (await refusal(call)).code == 422
    labelled = await jane.patch(resources.POD, "p", "default", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["annotations"] == {key: "0"}


async def test_templates_have_no_reserved_keys(jane):
    template = {"metadata": {"annotations": {reserved_keys.GPU_INDEXES: "0"}}, "spec": POD["spec"]}
    job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    error = await refusal(jane.create(resources.JOB, job))
    assert f"spec.template.metadata.annotations[{reserved_keys.GPU_INDEXES}]: Forbidden" in error.message
    replica = {"replicas": 1, "template": template}
    training = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": {"Worker": replica}}}
    assert (await refusal(jane.create(job_kinds.PYTORCH_JOB.resource, training))).code == 422


async def test_an_administrator_lifts_memory_limits_of_a_namespace(core):
    boss = LocalClient(core, core.scheme, user=UserInfo(name="boss", groups=("system:masters",)))
    annotations = {reserved_keys.MEMORY_LIMIT: "ignore"}
    namespace = await boss.create(resources.NAMESPACE, {"metadata": {"name": "big", "annotations": annotations}})
    assert namespace["metadata"]["annotations"] == annotations


def debugger(name="debugger", **fields):
    return {"name": name, "image": "busybox", "command": ["sh"]} | fields


def debug(client, *containers, patch_type=PatchType.MERGE, **spec):
    patch = {"spec": {"ephemeralContainers": list(containers)} | spec}
    return client.patch(resources.POD, "p", "default", patch, patch_type=patch_type, subresource="ephemeralcontainers")


async def test_ephemeral_containers_are_added(jane):
    await jane.create(resources.POD, POD)
    pod = await debug(jane, debugger(targetContainerName="c"), nodeName="n", activeDeadlineSeconds=5)
    (container,) = pod["spec"]["ephemeralContainers"]
    assert (container["imagePullPolicy"], container["terminationMessagePolicy"]) == ("Always", "File")
    assert "activeDeadlineSeconds" not in pod["spec"]
    pod = await debug(jane, debugger("second"), patch_type=PatchType.STRATEGIC)
    assert {container["name"] for container in pod["spec"]["ephemeralContainers"]} == {"debugger", "second"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([], 'existing ephemeral containers "old" may not be removed'),
        ([debugger("old", command=["id"])], 'existing ephemeral containers "old" may not be changed'),
        ([debugger("old"), debugger("old")], "Duplicate value"),
        ([debugger("old"), debugger("c")], "Duplicate value"),
        ([debugger("old"), debugger(targetContainerName="absent")], "targetContainerName: Not found"),
        ([debugger("old"), debugger(resources={"requests": {"cpu": "1"}})], "cannot be set for an Ephemeral Container"),
        ([debugger("old"), debugger(ports=[{"containerPort": 80}])], "cannot be set for an Ephemeral Container"),
        ([debugger("old"), debugger(livenessProbe={"exec": {"command": ["x"]}})], "cannot be set for an Ephemeral"),
        ([debugger("old"), debugger("../..")], "lowercase RFC 1123 label"),
        ([debugger("old"), {"name": "x"}], "image: Required value"),
    ],
)
async def test_ephemeral_containers_are_checked(jane, containers, expected):
    await jane.create(resources.POD, POD)
    await debug(jane, debugger("old"))
    assert expected in (await refusal(debug(jane, *containers))).message


async def test_ephemeral_containers_come_by_their_subresource_only(jane):
    spec = POD["spec"] | {"ephemeralContainers": [debugger()]}
    assert "cannot be set on create" in (await refusal(jane.create(resources.POD, POD | {"spec": spec}))).message
    await jane.create(resources.POD, POD)
    patch = {"spec": {"ephemeralContainers": [debugger()]}}
    for subresource in ("", "resize"):
        error = await refusal(jane.patch(resources.POD, "p", "default", patch, subresource=subresource))
        assert error.code == 422
    template = {"spec": spec | {"restartPolicy": "Never"}}
    job = {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    error = await refusal(jane.create(resources.JOB, job))
    assert "ephemeral containers not allowed in pod template" in error.message
