"""`pykueue controller` in its own process: admission, health, hand-over and missing kinds."""

import signal
import subprocess
import sys

from tests.e2e.controller_process import environment, wait_for
from tests.e2e.external_cluster import embedded


def test_jobs_start_by_a_controller_in_another_process(cluster):
    cluster.start_leader()
    cluster.kubectl.apply(cluster.job("one"))
    wait_for(lambda: not cluster.is_suspended("one"), "the job starts")


def test_without_a_controller_labelled_jobs_wait_and_others_do_not(cluster):
    cluster.kubectl.apply(cluster.job("queued"), cluster.job("plain", queue=""))
    assert (cluster.is_suspended("queued"), cluster.is_suspended("plain")) == (True, False)


def test_waiting_jobs_start_when_the_controller_returns(cluster):
    cluster.start_leader().stop()
    cluster.kubectl.apply(cluster.job("one"))
    assert cluster.is_suspended("one")
    cluster.start_leader()
    wait_for(lambda: not cluster.is_suspended("one"), "the job starts")


def test_a_replica_that_waits_for_the_lease_is_ready_and_does_nothing(cluster):
    cluster.start_leader()
    second = cluster.start_controller()
    wait_for(lambda: second.page("readyz") == "ok", "the second is ready")
    assert not second.leads()


def test_a_leader_that_stops_hands_over_at_once(cluster):
    first = cluster.start_leader()
    second = cluster.start_controller()
    wait_for(lambda: second.page("readyz") == "ok", "the second is ready")
    first.stop()
    wait_for(second.leads, "the second leads", seconds=12)


def test_a_killed_leader_is_replaced_and_quota_holds(cluster):
    first = cluster.start_leader()
    second = cluster.start_controller()
    cluster.kubectl.apply(*(cluster.job(f"job-{number}") for number in range(5)))
    wait_for(lambda: len(cluster.admitted()) == 2, "quota is used")
    running = set(cluster.admitted())
    first.stop(signal.SIGKILL)
    wait_for(second.leads, "the second leads", seconds=20)
    cluster.kubectl.apply(cluster.job("later"))
    wait_for(lambda: len(cluster.kubectl.json("get", "workloads")["items"]) == 6, "the second works")
    assert set(cluster.admitted()) == running


def test_a_framework_whose_kind_is_missing_is_waited_for(cluster):
    custom = {"group": "example.dev", "version": "v1", "kind": "Task", "plural": "tasks"}
    custom |= {"podSets": [{"template": "spec.template"}]}
    cluster.start_leader(integrations={"frameworks": ["batch/job"], "custom": [custom]})
    cluster.kubectl.apply(cluster.job("one"))
    wait_for(lambda: not cluster.is_suspended("one"), "jobs of other kinds start")


def doctor(cluster):
    command = [sys.executable, "-m", "pykueue", "doctor", "--kubeconfig", str(cluster.kubectl.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert done.returncode == ("FAIL" in done.stdout), done.stderr
    return done.stdout


def test_the_doctor_sees_that_nobody_leads(cluster):
    assert "FAIL leader       no controller leads" in doctor(cluster)


@embedded("definitions, policies and rights are built in")
def test_the_doctor_recognises_an_embedded_api(cluster):
    lines = doctor(cluster).splitlines()
    assert [line for line in lines if line.startswith("FAIL")] == ["FAIL leader       no controller leads"]
    assert "ok   api          pykueue up, which has the definitions, checks and rights of Kueue" in lines
    assert lines[lines.index("FAIL leader       no controller leads") + 1].endswith("repair: pykueue controller")
