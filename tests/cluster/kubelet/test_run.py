from datetime import UTC, datetime, timedelta

from pykueue.cluster.kubelet import status
from pykueue.cluster.kubelet.run import Exit, PodRun, Start, Stop

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OK = Exit(code=0)
BAD = Exit(code=1)


def begin(*mains, inits=(), policy="Never", **spec):
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": list(inits),
            "containers": [{"name": name} for name in mains],
            **spec,
        },
    }
    return PodRun.begin(pod, NOW)


def sidecar(name):
    return {"name": name, "restartPolicy": "Always"}


def start_all(run, now=NOW):
    names = []
    while actions := run.due(now):
        for action in actions:
            run.started(action.container, "id", now)
            names.append(action.container)
    return names


def test_all_containers_start_together():
    assert begin("a", "b").due(NOW) == [Start(container="a", attempt=0), Start(container="b", attempt=0)]


def test_a_pod_is_pending_until_a_main_container_runs():
    run = begin("a")
    run.due(NOW)
    assert run.phase == "Pending"
    run.started("a", "id", NOW)
    assert run.phase == "Running"


def test_all_successes_make_a_succeeded_pod():
    run = begin("a", "b")
    start_all(run)
    run.exited("a", OK, NOW)
    assert run.due(NOW) == []
    run.exited("b", OK, NOW)
    run.due(NOW)
    assert run.phase == "Succeeded"


def test_one_failure_makes_a_failed_pod():
    run = begin("a", "b")
    start_all(run)
    run.exited("a", BAD, NOW)
    run.exited("b", OK, NOW)
    run.due(NOW)
    assert run.phase == "Failed"


def test_init_containers_run_one_after_the_other():
    run = begin("main", inits=[{"name": "first"}, {"name": "second"}])
    for name in ("first", "second"):
        assert run.due(NOW) == [Start(container=name, attempt=0)]
        run.started(name, "id", NOW)
        assert run.due(NOW) == []
        run.exited(name, OK, NOW)
    assert run.due(NOW) == [Start(container="main", attempt=0)]


def test_a_failed_init_container_fails_a_pod_that_never_restarts():
    run = begin("main", inits=[{"name": "first"}])
    start_all(run)
    run.exited("first", BAD, NOW)
    run.due(NOW)
    assert run.phase == "Failed"


def test_a_sidecar_runs_first_and_is_stopped_last():
    run = begin("main", inits=[sidecar("proxy")])
    assert start_all(run) == ["proxy", "main"]
    run.exited("main", OK, NOW)
    assert run.due(NOW) == [Stop(container="proxy")]
    assert run.phase == "Running"
    run.exited("proxy", Exit(code=143), NOW)
    run.due(NOW)
    assert run.phase == "Succeeded"


def test_a_sidecar_that_ends_early_is_restarted():
    run = begin("main", inits=[sidecar("proxy")])
    start_all(run)
    run.exited("proxy", OK, NOW)
    assert run.due(NOW) == [Start(container="proxy", attempt=1)]


def test_on_failure_restarts_in_place():
    run = begin("main", policy="OnFailure")
    start_all(run)
    run.exited("main", BAD, NOW)
    assert run.due(NOW) == [Start(container="main", attempt=1)]


def test_the_second_restart_waits_and_says_so():
    run = begin("main", policy="OnFailure")
    for _ in range(2):
        start_all(run)
        run.exited("main", BAD, NOW)
    assert run.due(NOW) == []
    assert run.wake_at == NOW + timedelta(seconds=10)
    container_status = status.render(run, NOW, "10.0.0.1")["containerStatuses"][0]
    assert container_status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container_status["lastState"]["terminated"]["exitCode"] == 1
    assert run.due(NOW + timedelta(seconds=10)) == [Start(container="main", attempt=2)]


def test_always_restarts_after_success_too():
    run = begin("main", policy="Always")
    start_all(run)
    run.exited("main", OK, NOW)
    assert run.due(NOW) == [Start(container="main", attempt=1)]


def test_stopping_ends_the_main_containers_then_the_sidecars():
    run = begin("main", inits=[sidecar("proxy")])
    start_all(run)
    run.stop(NOW)
    assert run.due(NOW) == [Stop(container="main")]
    run.exited("main", Exit(code=143), NOW)
    assert run.due(NOW) == [Stop(container="proxy")]
    run.exited("proxy", Exit(code=143), NOW)
    run.due(NOW)
    assert run.phase == "Failed"


def test_a_stopped_pod_that_exits_with_0_has_succeeded():
    run = begin("main")
    start_all(run)
    run.stop(NOW)
    run.due(NOW)
    run.exited("main", OK, NOW)
    run.due(NOW)
    assert run.phase == "Succeeded"


def test_the_deadline_of_a_pod_ends_it():
    run = begin("main", activeDeadlineSeconds=60)
    start_all(run)
    assert run.wake_at == NOW + timedelta(seconds=60)
    assert run.due(NOW + timedelta(seconds=60)) == [Stop(container="main")]
    run.exited("main", OK, NOW)
    run.due(NOW)
    assert (run.phase, status.render(run, NOW, "")["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_delayed_start_is_tried_again():
    run = begin("main")
    run.due(NOW)
    run.start_delayed("main", ("CreateContainerConfigError", 'configmap "c" not found'), NOW)
    assert run.due(NOW) == []
    assert status.render(run, NOW, "")["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }
    assert run.due(run.wake_at) == [Start(container="main", attempt=0)]


def test_a_status_has_readiness():
    run = begin("a", "b")
    run.due(NOW)
    run.started("a", "id", NOW)
    conditions = {condition["type"]: condition for condition in status.render(run, NOW, "")["conditions"]}
    assert conditions["Ready"]["message"] == "containers with unready status: [b]"
    run.started("b", "id", NOW)
    conditions = {condition["type"]: condition for condition in status.render(run, NOW, "")["conditions"]}
    assert conditions["Ready"]["status"] == "True"


def test_a_run_reads_back_from_its_status():
    run = begin("a", "b", policy="OnFailure")
    start_all(run)
    run.exited("a", BAD, NOW)
    start_all(run)
    pod = run.pod | {"status": status.render(run, NOW, "")}
    restored = status.restore(pod, NOW + timedelta(hours=1))
    assert status.render(restored, NOW, "") == pod["status"]
