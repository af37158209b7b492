"""Jobs whose pods really run (as processes) or seem to (simulated), from the API's point of view."""

import sys

from tests.cluster.local_cluster.house import CONTAINER, has_condition, job
from tests.cluster.waiting import eventually

from pykueue.api import objects, resources
from pykueue.cluster import pods
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import ContainerRequest

DISRUPTED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def command(*words, **container):
    return {"containers": [CONTAINER | {"command": list(words)} | container]}


def shell(script, **container):
    return command("sh", "-c", script, **container)


async def test_a_simulated_job_completes(furnish):
    house = await furnish("simulated")
    await house.create(resources.JOB, job(pod=command("sleep", "0.05"), parallelism=3, completions=6))
    done = await house.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"]["succeeded"] == 6


async def test_a_process_runs_and_its_exit_code_is_told(furnish):
    house = await furnish("process")
    await house.create(resources.JOB, job(pod=shell("echo hello; exit 3"), backoffLimit=0))
    await house.until(resources.JOB, "train", has_condition("Failed"))
    (pod,) = await house.pods()
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert house.room.agent.runtime.log(pod, "main", 0).read_text() == "hello\n"


async def test_a_running_pod_is_ready(furnish):
    house = await furnish("process")
    await house.create(resources.JOB, job(pod=shell("sleep 60")))
    running = await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    assert running["status"]["active"] == 1


async def test_a_suspended_job_gets_sigterm_saves_and_resumes(furnish, tmp_path):
    house = await furnish("process")
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
    await house.create(resources.JOB, job(pod=command(sys.executable, "-c", script, str(saved))))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    (pod,) = await house.pods()
    await eventually(lambda: "ready" in house.room.agent.runtime.log(pod, "main", 0).read_text())
    await house.client.patch(resources.JOB, "train", "default", {"spec": {"suspend": True}})
    await house.until_gone(resources.POD, objects.name(pod))
    assert saved.read_text() == "checkpoint"
    await house.client.patch(resources.JOB, "train", "default", {"spec": {"suspend": False}})
    done = await house.until(resources.JOB, "train", has_condition("Complete"))
    assert done["status"].get("failed") is None


async def test_a_pod_waits_for_its_config_map(furnish):
    house = await furnish("process")
    source = {"configMapKeyRef": {"name": "settings", "key": "word"}}
    pod = shell("echo $WORD", env=[{"name": "WORD", "valueFrom": source}])
    await house.create(resources.JOB, job(pod=pod))
    waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}

    def is_waiting(obj):
        shown = obj.get("status", {}).get("containerStatuses") or [{}]
        return shown[0].get("state", {}).get("waiting") == waiting

    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active"))
    (found,) = await house.pods()
    await house.until(resources.POD, objects.name(found), is_waiting)
    place = {"name": "settings", "namespace": "default"}
    await house.create(
        resources.CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"word": "hi"}}
    )
    await house.until(resources.JOB, "train", has_condition("Complete"))
    assert house.room.agent.runtime.log(found, "main", 0).read_text() == "hi\n"


async def test_gpus_are_given_by_index(furnish):
    machine = {
        "metadata": {"name": "gpu"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
    }
    house = await furnish("process", machine)
    limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    pod = shell("echo $CUDA_VISIBLE_DEVICES; sleep 60", resources=limits)
    await house.create(resources.JOB, job(pod=pod, parallelism=3, completions=3))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 2)
    found = {objects.annotations(pod).get("pykueue.dev/gpu-indexes") for pod in await house.pods()}
    assert found == {"0", "1", None}


async def test_nothing_is_left_after_shutdown(furnish, tmp_path):
    house = await furnish("process")
    mark = tmp_path / "mark"
    await house.create(
        resources.JOB, job(pod=shell(f"trap 'rm {mark}; exit 0' TERM; touch {mark}; while :; do sleep 0.05; done"))
    )
    await eventually(mark.exists)
    await house.room.stop()
    assert not mark.exists()


async def test_a_new_room_finds_running_pods_again(furnish, tmp_path):
    house = await furnish("process")
    go, runs = tmp_path / "go", tmp_path / "runs"
    script = f"echo run >> {runs}; while [ ! -e {go} ]; do sleep 0.05; done"
    await house.create(resources.JOB, job(pod=shell(script)))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    await eventually(runs.exists)
    await house.room.abandon()
    again = await furnish("process")
    go.touch()
    await again.until(resources.JOB, "train", has_condition("Complete"))
    assert runs.read_text() == "run\n"
    assert len(await again.pods()) == 1


async def test_an_attempt_that_was_started_but_never_told_of_is_found(client, furnish, tmp_path):
    runs = tmp_path / "runs"
    spec = shell(f"echo run >> {runs}; sleep 0.3") | {"restartPolicy": "Never", "nodeName": "one"}
    place = {"name": "lonely", "namespace": "default"}
    pod = await client.create(resources.POD, {"apiVersion": "v1", "kind": "Pod", "metadata": place, "spec": spec})
    container = pod["spec"]["containers"][0]
    await ProcessRuntime(tmp_path / "room").start(
        ContainerRequest(pod=pod, container=container, command=tuple(container["command"]))
    )
    house = await furnish("process", {"metadata": {"name": "one"}, "status": {"capacity": {"cpu": "1"}}})
    await house.until(resources.POD, "lonely", lambda obj: pods.phase(obj) == "Succeeded")
    assert runs.read_text() == "run\n"


async def test_logs_outlive_a_restart_but_not_their_pod(furnish):
    house = await furnish("process")
    await house.create(resources.JOB, job(pod=shell("echo remember")))
    await house.until(resources.JOB, "train", has_condition("Complete"))
    (pod,) = await house.pods()
    await house.room.stop()
    again = await furnish("process")
    log = again.room.agent.runtime.log(pod, "main", 0)
    assert log.read_text() == "remember\n"
    await again.client.delete(resources.POD, objects.name(pod), "default")
    await eventually(lambda: not log.exists())


async def test_pods_of_a_lost_node_move_elsewhere(furnish):
    capacity = {"capacity": {"cpu": "4", "memory": "8Gi"}}
    machines = [{"metadata": {"name": name}, "status": capacity} for name in ("one", "two")]
    house = await furnish("simulated", *machines)
    await house.create(resources.JOB, job(pod=command("sleep", "60"), podFailurePolicy=DISRUPTED))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    (pod,) = await house.pods()
    await house.client.delete(resources.NODE, pods.node_name(pod))
    await house.until_gone(resources.POD, objects.name(pod))
    back = await house.until(resources.JOB, "train", lambda obj: obj["status"].get("ready") == 1)
    assert "failed" not in back["status"]
    (moved,) = await house.pods()
    assert pods.node_name(moved) != pods.node_name(pod)


FAST = {"periodSeconds": 1, "failureThreshold": 1}


async def test_a_pod_is_ready_when_its_probe_says_so(furnish, tmp_path):
    house = await furnish("process")
    mark = tmp_path / "ready"
    probe = {"exec": {"command": ["test", "-e", str(mark)]}, **FAST}
    await house.create(resources.JOB, job(pod=shell("sleep 60", readinessProbe=probe)))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active") == 1)
    (pod,) = await house.pods()
    running = await house.until(resources.POD, objects.name(pod), lambda obj: obj["status"].get("phase") == "Running")
    assert not has_condition("Ready")(running)
    mark.touch()
    await house.until(resources.POD, objects.name(pod), has_condition("Ready"))


async def test_a_container_that_fails_its_liveness_probe_is_restarted(furnish, tmp_path):
    house = await furnish("process")
    probe = {"exec": {"command": ["test", "!", "-e", str(tmp_path / "ill")]}, **FAST}
    script = f"[ -e {tmp_path}/second ] && {{ rm -f {tmp_path}/ill; sleep 60; }}; touch {tmp_path}/second {tmp_path}/ill; sleep 60"
    pod = {"terminationGracePeriodSeconds": 0, "restartPolicy": "OnFailure"}
    await house.create(resources.JOB, job(pod=shell(script, livenessProbe=probe) | pod))

    def is_restarted(obj):
        (status,) = obj.get("status", {}).get("containerStatuses") or [{}]
        return status.get("restartCount") == 1 and status.get("ready")

    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("active") == 1)
    (found,) = await house.pods()
    await house.until(resources.POD, objects.name(found), is_restarted)


async def test_hooks_run_after_the_start_and_before_the_stop(furnish, tmp_path):
    house = await furnish("process")
    hooks = {
        "postStart": {"exec": {"command": ["touch", str(tmp_path / "started")]}},
        "preStop": {"exec": {"command": ["touch", str(tmp_path / "stopping")]}},
    }
    await house.create(resources.JOB, job(pod=shell("sleep 60", lifecycle=hooks)))
    await house.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    assert (tmp_path / "started").exists()
    (pod,) = await house.pods()
    await house.client.delete(resources.JOB, "train", "default")
    await house.client.delete(resources.POD, objects.name(pod), "default")
    await house.until_gone(resources.POD, objects.name(pod))
    assert (tmp_path / "stopping").exists()
