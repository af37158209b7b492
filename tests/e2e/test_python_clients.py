"""The clients that Python programs use: the official one and kr8s."""

import threading

import kr8s
import kubernetes
import pytest
from kr8s.asyncio.objects import ConfigMap
from kubernetes import client, config, watch


@pytest.fixture
def official(kubeconfig):
    with config.new_client_from_config(str(kubeconfig)) as api_client:
        yield api_client


@pytest.fixture
def namespace(official):
    core = client.CoreV1Api(official)
    created = core.create_namespace({"metadata": {"generateName": "py-"}})
    yield created.metadata.name
    core.delete_namespace(created.metadata.name)


def test_objects_are_created_read_and_deleted(official, namespace):
    core = client.CoreV1Api(official)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "it"}, "data": {"a": "1"}})
    assert core.read_namespaced_config_map("it", namespace).data == {"a": "1"}
    core.delete_namespaced_config_map("it", namespace)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_config_map("it", namespace)
    assert refused.value.status == 404


def test_a_patch_merges(official, namespace):
    core = client.CoreV1Api(official)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "it"}, "data": {"a": "1"}})
    core.patch_namespaced_config_map("it", namespace, {"data": {"b": "2"}})
    assert core.read_namespaced_config_map("it", namespace).data == {"a": "1", "b": "2"}


def test_a_watch_sees_what_happens_after_a_list(official, namespace):
    core = client.CoreV1Api(official)
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    events = []

    def follow():
        stream = watch.Watch()
        arguments = {"resource_version": version, "timeout_seconds": 20, "label_selector": "watched=yes"}
        for event in stream.stream(core.list_namespaced_config_map, namespace, **arguments):
            events.append((event["type"], event["object"].data))
            if event["type"] == "DELETED":
                stream.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "it", "labels": {"watched": "yes"}}})
    core.patch_namespaced_config_map("it", namespace, {"data": {"b": "2"}})
    core.delete_namespaced_config_map("it", namespace)
    follower.join(timeout=30)
    assert events == [("ADDED", None), ("MODIFIED", {"b": "2"}), ("DELETED", {"b": "2"})]


def test_custom_objects(official):
    custom = client.CustomObjectsApi(official)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "from-python"},
        "spec": {"nodeLabels": {"gpu": "a100"}},
    }
    custom.create_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "resourceflavors", flavor)
    stored = custom.get_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "resourceflavors", "from-python")
    assert stored["spec"]["nodeLabels"] == {"gpu": "a100"}


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s_creates_patches_watches_and_deletes(kubeconfig, namespace):
    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    config_map = await ConfigMap({"metadata": {"name": "it", "namespace": namespace}, "data": {"a": "1"}}, api=api)
    await config_map.create()
    await config_map.patch({"data": {"b": "2"}})
    listed = [item.name async for item in api.get("configmaps", namespace=namespace) if item.name == "it"]
    assert (config_map.raw["data"], listed) == ({"a": "1", "b": "2"}, ["it"])
    await config_map.delete()
    await config_map.wait("delete", timeout=20)
    assert not await config_map.exists()
    await api._session.aclose()
