"""Jobs whose pods run as processes or are simulated, as the API shows them."""

import asyncio
import sys

from tests.cluster.local_cluster.cluster_fixture import CONTAINER, has_condition, job
from tests.cluster.test_resource_claims import CLAIMS, TEMPLATE
from tests.cluster.waiting import eventually

from pykueue.api import conditions, objects, resources
from pykueue.cluster import pods
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import ContainerRequest

DISRUPTED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def command(*words, **container):
    return {"containers": [CONTAINER | {"command": list(words)} | container]}


def shell(script, **container):
    return command("sh", "-c", script, **container)


async def test_a_simulated_job_completes(start_cluster):
    local_cluster = await start_cluster("simulated")
    await local_cluster.create(resources.JOB, job(pod=command("sleep", "0.05"), parallelism=3, completions=6))
    done = await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"]["succeeded"] == 6


async def test_a_process_runs_and_its_exit_code_is_reported(start_cluster):
    local_cluster = await start_cluster("process")
    await local_cluster.create(resources.JOB, job(pod=shell("echo hello; exit 3"), backoffLimit=0))
    await local_cluster.until(resources.JOB, "train", has_condition("Failed"))
    (pod,) = await local_cluster.pods()
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert local_cluster.cluster.kubelet.runtime.log(pod, "main", 0).read_text() == "hello\n"


async def test_a_running_pod_is_ready(start_cluster):
    local_cluster = await start_cluster("process")
    await local_cluster.create(resources.JOB, job(pod=shell("sleep 60")))
    running = await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    assert running["status"]["active"] == 1


async def test_a_suspended_job_gets_sigterm_saves_and_resumes(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    saved = tmp_path / "saved"
    script = (
        "import signal, sys, time, pathlib\n"
        "saved = pathlib.Path(sys.argv[1])\n"
        "if saved.exists(): sys.exit(0)\n"
        "def save(*_):\n"
        "    saved.write_text('checkpoint')\n"
        "    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    await local_cluster.create(resources.JOB, job(pod=command(sys.executable, "-c", script, str(saved))))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    (pod,) = await local_cluster.pods()
    await eventually(lambda: "ready" in local_cluster.cluster.kubelet.runtime.log(pod, "main", 0).read_text())
    await local_cluster.client.patch(resources.JOB, "train", "default", {"spec": {"suspend": True}})
    await local_cluster.until_gone(resources.POD, objects.name(pod))
    assert saved.read_text() == "checkpoint"
    await local_cluster.client.patch(resources.JOB, "train", "default", {"spec": {"suspend": False}})
    done = await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"].get("failed") is None


async def test_a_pod_waits_for_its_config_map(start_cluster):
    local_cluster = await start_cluster("process")
    source = {"configMapKeyRef": {"name": "settings", "key": "word"}}
    pod = shell("echo $WORD", env=[{"name": "WORD", "valueFrom": source}])
    await local_cluster.create(resources.JOB, job(pod=pod))
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}

    def is_waiting(obj):
        statuses = obj.get("status", {}).get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("waiting") == waiting

    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active"))
    (running,) = await local_cluster.pods()
    await local_cluster.until(resources.POD, objects.name(running), is_waiting)
    place = {"name": "settings", "namespace": "default"}
    await local_cluster.create(
        resources.CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"word": "hi"}}
    )
    await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert local_cluster.cluster.kubelet.runtime.log(running, "main", 0).read_text() == "hi\n"


async def test_a_stateful_set_with_claims_says_that_there_are_no_persistent_volumes(start_cluster):
    local_cluster = await start_cluster("process")
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    labels = {"app": "db"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    await local_cluster.create(
        resources.STATEFUL_SET, {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    )
    async with asyncio.timeout(30):
        async for event in local_cluster.client.watch(resources.CORE_EVENT, "default"):
            if event.type == "ADDED" and event.object["reason"] == "Failed":
                break
    assert event.object["involvedObject"]["name"] == "db-0"
    assert event.object["message"].endswith("do not exist here; use a hostPath volume for files that stay")


async def test_gpus_are_allocated_by_index(start_cluster):
    machine = {
        "metadata": {"name": "gpu"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
    }
    local_cluster = await start_cluster("process", machine)
    limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    pod = shell("echo $CUDA_VISIBLE_DEVICES; sleep 60", resources=limits)
    await local_cluster.create(resources.JOB, job(pod=pod, parallelism=3, completions=3))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 2)
    indexes = {objects.annotations(pod).get("pykueue.dev/gpu-indexes") for pod in await local_cluster.pods()}
    assert indexes == {"0", "1", None}


async def test_nothing_is_left_after_shutdown(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    mark = tmp_path / "mark"
    await local_cluster.create(
        resources.JOB, job(pod=shell(f"trap 'rm {mark}; exit 0' TERM; touch {mark}; while :; do sleep 0.05; done"))
    )
    await eventually(mark.exists)
    await local_cluster.cluster.stop()
    assert not mark.exists()


async def test_a_new_cluster_adopts_running_pods(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    go, runs = tmp_path / "go", tmp_path / "runs"
    script = f"echo run >> {runs}; while [ ! -e {go} ]; do sleep 0.05; done"
    await local_cluster.create(resources.JOB, job(pod=shell(script)))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    await eventually(runs.exists)
    await local_cluster.cluster.abandon()
    again = await start_cluster("process")
    go.touch()
    await again.until(resources.JOB, "train", has_condition("Complete"))
    assert runs.read_text() == "run\n"
    assert len(await again.pods()) == 1


async def test_an_attempt_whose_start_was_never_reported_is_adopted(client, start_cluster, tmp_path):
    runs = tmp_path / "runs"
    spec = shell(f"echo run >> {runs}; sleep 0.3") | {"restartPolicy": "Never", "nodeName": "one"}
    place = {"name": "lonely", "namespace": "default"}
    pod = await client.create(resources.POD, {"apiVersion": "v1", "kind": "Pod", "metadata": place, "spec": spec})
    container = pod["spec"]["containers"][0]
    await ProcessRuntime(tmp_path / "cluster").start(
        ContainerRequest(pod=pod, container=container, command=tuple(container["command"]))
    )
    local_cluster = await start_cluster("process", {"metadata": {"name": "one"}, "status": {"capacity": {"cpu": "1"}}})
    await local_cluster.until(resources.POD, "lonely", lambda obj: pods.phase(obj) == "Succeeded")
    assert runs.read_text() == "run\n"


async def test_logs_outlive_a_restart_but_not_their_pod(start_cluster):
    local_cluster = await start_cluster("process")
    await local_cluster.create(resources.JOB, job(pod=shell("echo remember")))
    await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    (pod,) = await local_cluster.pods()
    await local_cluster.cluster.stop()
    again = await start_cluster("process")
    log = again.cluster.kubelet.runtime.log(pod, "main", 0)
    assert log.read_text() == "remember\n"
    await again.client.delete(resources.POD, objects.name(pod), "default")
    await eventually(lambda: not log.exists())


async def test_pods_of_a_lost_node_move_elsewhere(start_cluster):
    capacity = {"capacity": {"cpu": "4", "memory": "8Gi"}}
    machines = [{"metadata": {"name": name}, "status": capacity} for name in ("one", "two")]
    local_cluster = await start_cluster("simulated", *machines)
    await local_cluster.create(resources.JOB, job(pod=command("sleep", "60"), podFailurePolicy=DISRUPTED))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    (pod,) = await local_cluster.pods()
    await local_cluster.client.delete(resources.NODE, pods.node_name(pod))
    await local_cluster.until_gone(resources.POD, objects.name(pod))
    back = await local_cluster.until(resources.JOB, "train", lambda obj: obj["status"].get("ready") == 1)
    assert "failed" not in back["status"]
    (moved,) = await local_cluster.pods()
    assert pods.node_name(moved) != pods.node_name(pod)


FAST = {"periodSeconds": 1, "failureThreshold": 1}


async def test_a_pod_is_ready_when_its_probe_says_so(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    mark = tmp_path / "ready"
    probe = {"exec": {"command": ["test", "-e", str(mark)]}, **FAST}
    await local_cluster.create(resources.JOB, job(pod=shell("sleep 60", readinessProbe=probe)))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active") == 1)
    (pod,) = await local_cluster.pods()
    running = await local_cluster.until(
        resources.POD, objects.name(pod), lambda obj: obj["status"].get("phase") == "Running"
    )
    assert not has_condition("Ready")(running)
    mark.touch()
    await local_cluster.until(resources.POD, objects.name(pod), has_condition("Ready"))


async def test_a_container_that_fails_its_liveness_probe_is_restarted(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    probe = {"exec": {"command": ["test", "!", "-e", str(tmp_path / "ill")]}, **FAST}
    script = f"[ -e {tmp_path}/second ] && {{ rm -f {tmp_path}/ill; sleep 60; }}; touch {tmp_path}/second {tmp_path}/ill; sleep 60"
    pod = {"terminationGracePeriodSeconds": 0, "restartPolicy": "OnFailure"}
    await local_cluster.create(resources.JOB, job(pod=shell(script, livenessProbe=probe) | pod))

    def is_restarted(obj):
        (status,) = obj.get("status", {}).get("containerStatuses") or [{}]
        return status.get("restartCount") == 1 and status.get("ready")

    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active") == 1)
    (running,) = await local_cluster.pods()
    await local_cluster.until(resources.POD, objects.name(running), is_restarted)


async def test_hooks_run_after_the_start_and_before_the_stop(start_cluster, tmp_path):
    local_cluster = await start_cluster("process")
    hooks = {
        "postStart": {"exec": {"command": ["touch", str(tmp_path / "started")]}},
        "preStop": {"exec": {"command": ["touch", str(tmp_path / "stopping")]}},
    }
    await local_cluster.create(resources.JOB, job(pod=shell("sleep 60", lifecycle=hooks)))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    assert (tmp_path / "started").exists()
    (pod,) = await local_cluster.pods()
    await local_cluster.client.delete(resources.JOB, "train", "default")
    await local_cluster.client.delete(resources.POD, objects.name(pod), "default")
    await local_cluster.until_gone(resources.POD, objects.name(pod))
    assert (tmp_path / "stopping").exists()


def job_set(**pod):
    template = {"spec": {"containers": [CONTAINER | {"command": ["sleep", "0.05"]}]} | pod}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "default"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"template": template}}}]},
    }


async def test_a_job_set_that_names_no_restart_policy_completes(start_cluster):
    local_cluster = await start_cluster("simulated")
    await local_cluster.create(resources.JOB_SET, job_set())
    await local_cluster.until(resources.JOB_SET, "set", has_condition("Completed"))


async def test_a_job_set_says_that_its_jobs_are_refused(start_cluster):
    local_cluster = await start_cluster("simulated")
    await local_cluster.create(resources.JOB_SET, job_set(restartPolicy="Always"))
    failed = await local_cluster.until(resources.JOB_SET, "set", has_condition("ReplicaFailure"))
    assert "restartPolicy" in conditions.find(failed, "ReplicaFailure")["message"]
    async with asyncio.timeout(30):
        async for event in local_cluster.client.watch(resources.CORE_EVENT, "default"):
            if event.object["reason"] == "FailedCreate":
                break
    assert event.object["involvedObject"]["kind"] == "JobSet"
    assert event.object["type"] == "Warning"


async def test_nodes_belong_to_the_runtime_that_created_them(start_cluster):
    simulated = await start_cluster("simulated")
    own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own"}, "spec": {"unschedulable": True}}
    await simulated.create(resources.NODE, own)
    await simulated.create(resources.JOB, job(pod=command("sleep", "600")))
    await simulated.until(resources.JOB, "train", lambda obj: objects.status(obj).get("ready") == 1)
    (simulated_pod,) = await simulated.pods()
    await simulated.cluster.abandon()
    local_cluster = await start_cluster("process")
    names = {objects.name(node) for node in (await local_cluster.client.list(resources.NODE)).items}
    assert len(names) == 2
    assert "own" in names
    assert not any(name.startswith("simulated") for name in names)
    await local_cluster.until_gone(resources.POD, objects.name(simulated_pod))


async def test_without_a_runtime_there_are_no_nodes_of_another_one(start_cluster):
    await (await start_cluster("simulated")).cluster.abandon()
    local_cluster = await start_cluster("none")
    assert (await local_cluster.client.list(resources.NODE)).items == []


async def test_a_taint_evicts_the_pod_and_the_job_goes_on_elsewhere(start_cluster):
    machines = [{"kind": "Node", "metadata": {"name": name}} for name in ("a", "b")]
    local_cluster = await start_cluster("simulated", *machines)
    policy = {"podFailurePolicy": DISRUPTED, "backoffLimit": 0}
    await local_cluster.create(resources.JOB, job(pod=command("sleep", "600"), **policy))

    async def node_other_than(name):
        async with asyncio.timeout(30):
            async for event in local_cluster.client.watch(resources.POD, "default"):
                if pods.node_name(event.object) not in ("", name):
                    return pods.node_name(event.object)
        raise AssertionError

    first = await node_other_than("")
    taint = {"key": "broken", "effect": "NoExecute"}
    await local_cluster.client.patch(resources.NODE, first, "", {"spec": {"taints": [taint]}})
    assert {first, await node_other_than(first)} == {"a", "b"}


async def test_claims_are_made_from_templates(start_cluster):
    local_cluster = await start_cluster("simulated")
    await local_cluster.create(resources.JOB, job(pod=command("sleep", "600") | CLAIMS))
    await local_cluster.create(resources.RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    async with asyncio.timeout(30):
        async for event in local_cluster.client.watch(resources.POD, "default"):
            if statuses := objects.status(event.object).get("resourceClaimStatuses"):
                break
    (status,) = statuses
    claim = await local_cluster.client.get(resources.RESOURCE_CLAIM, status["resourceClaimName"], "default")
    assert status["name"] == "device"
    assert objects.labels(claim) == {"team": "a"}
    assert claim["spec"]["devices"]["requests"][0]["name"] == "r"
    assert objects.controller_of(claim)["name"] == event.object["metadata"]["name"]


async def test_an_ephemeral_container_runs_beside_the_others(start_cluster):
    local_cluster = await start_cluster("process")
    await local_cluster.create(resources.JOB, job(pod=shell("while [ ! -e go ]; do sleep 0.02; done")))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    (pod,) = await local_cluster.pods()
    name = pod["metadata"]["name"]
    containers = [
        {
            "name": "debugger",
            "image": "x",
            "command": ["sh", "-c", "echo hello; exit 3"],
            "targetContainerName": "main",
        },
        {"name": "waits", "image": "x", "command": ["sleep", "60"]},
    ]
    patch = {"spec": {"ephemeralContainers": containers}}
    await local_cluster.client.patch(resources.POD, name, "default", patch, subresource="ephemeralcontainers")

    def has_ended(obj):
        statuses = {status["name"]: status["state"] for status in pods.ephemeral_statuses(obj)}
        return "terminated" in statuses.get("debugger", {}) and "running" in statuses.get("waits", {})

    pod = await local_cluster.until(resources.POD, name, has_ended)
    assert pods.ephemeral_statuses(pod)[0]["state"]["terminated"]["exitCode"] == 3
    assert (pod["status"]["phase"], pods.is_ready(pod)) == ("Running", True)
    runtime = local_cluster.cluster.kubelet.runtime
    assert runtime.log(pod, "debugger", 0).read_text() == "hello\n"
    execution = await local_cluster.cluster.kubelet.execute(
        objects.uid(pod), "waits", ("touch", "go"), terminal=False, wants_input=False
    )
    assert await execution.wait() == 0
    done = await local_cluster.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"]["succeeded"] == 1
    (pod,) = await local_cluster.pods()
    assert pods.ephemeral_statuses(pod)[1]["state"]["terminated"]["exitCode"] != 0
