"""Hostile pods of a namespaced user: nothing outside their own directories changes.

Nothing runs that is gated or was rejected, and one bad pod stops no other.
"""

import pytest
import yaml
from tests.cluster.kubelet.test_hostile_volumes import tree_hash
from tests.cluster.waiting import eventually

from pykueue.api import objects, reserved_keys, resources
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.local_client import LocalClient
from pykueue.cluster import pods

JANE = UserInfo(name="jane")
GOLD = {
    "metadata": {"name": "gold", "labels": {"tier": "gold"}},
    "spec": {"taints": [{"key": "gold", "effect": "NoSchedule"}]},
    "status": {"capacity": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "2"}},
}
HOSTILE = """
{volumes: [{name: ../../.., configMap: {name: cm}}]}
{volumes: [{name: '..', configMap: {name: cm}}]}
{volumes: [{name: v, configMap: {name: cm, items: [{key: tokens.csv, path: ../../../tokens.csv}]}}]}
{volumes: [{name: v, hostPath: {path: OUTSIDE}}], mount: {subPath: made/by/jane}}
{volumes: [{name: v, emptyDir: {}}], mount: {subPath: ../../../..}}
{volumes: [{name: v, emptyDir: {}}], mount: {subPathExpr: $(UP)/$(UP)/$(UP)/x}}
{volumes: [{name: v, downwardAPI: {items: [{path: ../../x, fieldRef: {fieldPath: metadata.name}}]}}]}
{volumes: [{name: v, projected: {sources: [{configMap: {name: cm, items: [{key: tokens.csv, path: /tmp/x}]}}]}}]}
{volumes: [{name: v, configMap: {name: cm}}], mount: {subPath: tokens.csv}}
{annotations: {pykueue.dev/group: ../../store}}
{annotations: {pykueue.dev/gpu-indexes: '0,zzz'}}
{annotations: {pykueue.dev/runtime: ../x, pykueue.dev/exit-code: zzz}}
{name: ../../x}
{workingDir: ../../..}
""".strip().splitlines()
"""Fields of a pod's spec; `mount` is merged into its volume mount, `name` and `workingDir` into its container."""


def hostile_pod(number, line, outside):
    spec = yaml.safe_load(line.replace("OUTSIDE", str(outside)))
    mount, annotations = spec.pop("mount", {}), spec.pop("annotations", {})
    container = {
        "name": spec.pop("name", "c"),
        "image": "x",
        "command": ["sh", "-c", "true; sleep 0"],
        "workingDir": spec.pop("workingDir", "/"),
        "env": [{"name": "UP", "value": ".."}],
        "volumeMounts": [
            {"name": volume["name"], "mountPath": f"/m{index}"} | mount
            for index, volume in enumerate(spec.get("volumes", ()))
        ],
    }
    metadata = {"name": f"hostile-{number}", "namespace": "default", "annotations": annotations}
    spec = {"restartPolicy": "Never", "nodeName": "gold", "containers": [container]} | spec
    return {"metadata": metadata, "spec": spec}


@pytest.fixture
def jane(client):
    return LocalClient(client._core, client._scheme, user=JANE, shows_managers=False)


def is_settled(pod):
    state = objects.nested_list(pod, "status", "containerStatuses")
    waiting = [objects.nested(status, "state", "waiting").get("reason", "") for status in state]
    return pods.is_finished(pod) or any("Error" in reason for reason in waiting)


@pytest.mark.parametrize("runtime", ["simulated", "process"])
async def test_hostile_pods_change_no_file_of_others(start_cluster, client, jane, tmp_path, runtime):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "tokens.csv").write_text("admin")
    local_cluster = await start_cluster(runtime, GOLD)
    data = {"tokens.csv": "stolen,mallory,1,system:masters"}
    await client.create(resources.CONFIG_MAP, {"metadata": {"name": "cm", "namespace": "default"}, "data": data})
    own = tmp_path / "cluster"
    before = tree_hash(tmp_path, own)
    accepted = []
    for number, line in enumerate(HOSTILE):
        pod = hostile_pod(number, line, outside)
        try:
            accepted.append(objects.name(await jane.create(resources.POD, pod)))
        except ApiError:
            continue
    assert accepted
    for name in accepted:
        await local_cluster.until(resources.POD, name, is_settled)
    assert tree_hash(tmp_path, own) == before
    uids = {objects.uid(pod) for pod in await local_cluster.pods()}
    for folder in ("volumes", "pods"):
        present = {path.name for path in (own / folder).glob("*")}
        assert present <= uids
        assert runtime == "process" or not present


async def test_a_gated_pod_never_starts(start_cluster, client, jane):
    local_cluster = await start_cluster("simulated", GOLD)
    gates = {"schedulingGates": [{"name": "a.io/gate"}]}
    pod = hostile_pod(0, "{}", "")
    pod["spec"] = {**pod["spec"], **gates}
    with pytest.raises(ApiError, match="cannot be set until all schedulingGates"):
        await jane.create(resources.POD, pod)
    del pod["spec"]["nodeName"]
    await jane.create(resources.POD, pod)
    with pytest.raises(ApiError, match="pod updates may not change"):
        await jane.patch(resources.POD, "hostile-0", "default", {"spec": {"nodeName": "gold"}})
    kubelet = local_cluster.cluster.kubelet
    stored = await client.get(resources.POD, "hostile-0", "default")
    kubelet._follow(stored | {"spec": stored["spec"] | {"nodeName": "gold"}})
    assert not kubelet.is_running(objects.uid(stored), "c")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"nodeSelector": {"tier": "cheap"}}, "NodeAffinity"), ({"cpu": "4"}, "OutOfcpu")],
)
async def test_a_node_rejects_a_pod_that_names_it(start_cluster, jane, fields, reason):
    local_cluster = await start_cluster("simulated", GOLD)
    pod = hostile_pod(0, "{}", "")
    cpu = fields.pop("cpu", "1")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    pod["spec"] |= fields
    await jane.create(resources.POD, pod)
    failed = await local_cluster.until(resources.POD, "hostile-0", pods.is_finished)
    assert (failed["status"]["phase"], failed["status"]["reason"]) == ("Failed", reason)
    assert (
        "containerID" not in failed["status"]["containerStatuses"][0]
        or not (failed["status"]["containerStatuses"][0]["containerID"])
    )


async def test_a_stored_annotation_gives_no_gpu(start_cluster, client):
    """A pod of an older version may carry the annotation; the kubelet removes it."""
    pod = hostile_pod(0, "{}", "")
    pod["metadata"]["annotations"] = {reserved_keys.GPU_INDEXES: "0,zzz"}
    await client.create(resources.POD, pod)
    local_cluster = await start_cluster("process", GOLD)
    await local_cluster.until(resources.POD, "hostile-0", pods.is_finished)

    async def is_removed():
        stored = await client.get(resources.POD, "hostile-0", "default")
        return reserved_keys.GPU_INDEXES not in objects.annotations(stored)

    assert await is_removed()
    log = local_cluster.cluster.kubelet.runtime.log(await client.get(resources.POD, "hostile-0", "default"), "c", 0)
    await eventually(log.exists)
