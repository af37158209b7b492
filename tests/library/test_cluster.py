"""The library as a program uses it."""

import asyncio
import re
import signal
import threading

import pytest

import pykueue
from pykueue.library import event_loops


@pytest.fixture(scope="module")
def cluster():
    with pykueue.Cluster(cpu=4, gpus=1) as running:
        yield running


def test_job_runs_for_its_duration(cluster):
    start = cluster.now
    name = cluster.submit(duration="10m")
    cluster.wait(name)
    assert 600 <= (cluster.now - start).total_seconds() < 605
    assert cluster.get("job", name)["status"]["succeeded"] == 1


def test_failed_job_is_finished_and_explained(cluster):
    cluster.submit(name="broken", duration=5, exit_code=3)
    cluster.wait("broken")
    explanation = cluster.explain("broken")
    assert "failed" in str(explanation)
    assert explanation.details["state"] == explanation.state == "finished"


def test_wait_says_why(cluster):
    cluster.submit(name="huge", cpu=40, duration="1m")
    with pytest.raises(pykueue.WaitError, match="It can never start as things are: it asks for 40 cpu"):
        cluster.wait("huge", "Admitted", timeout="1m")
    cluster.delete("job", "huge")
    assert [job for job in cluster.list("jobs") if job["metadata"]["name"] == "huge"] == []


def test_refused_object_says_what_is_wrong(cluster):
    with pytest.raises(pykueue.ClusterError, match=r"spec.stopPolicy"):
        cluster.patch("clusterqueue", "default", {"spec": {"stopPolicy": "Perhaps"}})


def test_unknown_names_are_errors(cluster):
    for call in (
        lambda: cluster.get("job", "nobody"),
        lambda: cluster.get("wombat", "x"),
        lambda: cluster.apply("no-such-file.yaml"),
        lambda: cluster.advance("soon"),
        lambda: cluster.explain("nobody"),
    ):
        with pytest.raises(pykueue.ClusterError):
            call()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "typo"}, "LocalQueue typo does not exist in namespace default; existing: default"),
        ({"priority": "typo"}, "WorkloadPriorityClass typo does not exist; existing: none"),
    ],
)
def test_submit_refuses_names_that_do_not_exist(cluster, options, text):
    with pytest.raises(pykueue.ClusterError, match=text):
        cluster.submit(name="refused", duration="1m", **options)
    with pytest.raises(pykueue.ClusterError):
        cluster.get("job", "refused")


def test_connect_without_a_cluster_says_how_to_start_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "PYKUEUE_DATA_DIR", "PYKUEUE_NAME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(pykueue.ClusterError, match="`pykueue up` starts a cluster on this machine"):
        pykueue.connect()


def test_apply_changes_what_exists(cluster):
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "default"}}
    cluster.apply(queue | {"spec": {"stopPolicy": "Hold"}})
    cluster.submit(name="held", duration=1)
    assert not cluster.is_admitted("held")
    cluster.patch("clusterqueue", "default", {"spec": {"stopPolicy": "None"}})
    cluster.wait("held", timeout="10s")


def test_misspelled_field_is_refused(cluster):
    """A test of manifests must not pass because a field was ignored."""
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "default"}}
    for name in ("default", "other"):
        with pytest.raises(pykueue.ClusterError, match=r'unknown field "spec.cohortt"'):
            cluster.apply(queue | {"metadata": {"name": name}, "spec": {"cohortt": "x"}})


def test_wait_for_a_job_that_does_not_exist_says_so(cluster):
    with pytest.raises(pykueue.WaitError, match="job nobody does not exist after 60 s"):
        cluster.wait("nobody", timeout="1m")


@pytest.mark.kueue(gpu=1)
def test_misspelled_option_of_the_marker_is_named(request):
    with pytest.raises(pytest.UsageError, match=r"marker kueue has no option gpu; it has .*gpus"):
        request.getfixturevalue("kueue")


def test_simulation_of_the_queues(cluster):
    result = cluster.simulate(generate="jobs=20 rate=60/h run=fixed(5m) resource=cpu sizes=1")
    assert len(result.job_rows()) == 20
    doubled = cluster.simulate(
        "clusterqueue/default.nominalQuota[cpu]=8", generate="jobs=20 rate=60/h run=fixed(5m) resource=cpu sizes=1"
    )
    assert len(doubled.job_rows()) == 20


def test_closed_cluster_says_so():
    with pytest.raises(pykueue.ClusterError, match="does not run"):
        pykueue.Cluster().submit()


async def test_coroutines():
    async with pykueue.AsyncCluster(cpu=1) as cluster:
        await cluster.submit(name="train", duration="2h")
        await cluster.advance("1h")
        assert await cluster.is_admitted("train")
        await cluster.wait("train")
        assert (await cluster.explain("train")).state == "finished"


async def test_plain_calls_on_a_running_loop():
    """As in the cells of a notebook, whose kernel runs a loop; that loop goes on afterwards."""
    with pykueue.Cluster(cpu=1) as cluster:
        cluster.submit(name="train", duration="2h")
        cluster.advance("1h")
        assert cluster.is_admitted("train")
        cluster.wait("train")
        assert cluster.explain("train").state == "finished"
        assert cluster.simulate(generate="jobs=2 rate=60/h run=fixed(5m) resource=cpu sizes=1").job_rows()
        await asyncio.sleep(0)
    with pytest.raises(pykueue.ClusterError):
        pykueue.connect("no-such-file")
    await asyncio.sleep(0)


@pytest.mark.usefixtures("ctrl_c")
def test_interrupted_call_on_a_running_loop_is_cancelled():
    """Ctrl-C reaches the thread that waits, and ends the work on the other one."""
    ended = []

    async def endless():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def cell():
        event_loops.complete(runner.run, endless())

    notebook, runner = asyncio.new_event_loop(), asyncio.Runner()
    with pytest.raises(KeyboardInterrupt):
        notebook.run_until_complete(cell())
    assert ended == ["endless"]
    notebook.close()
    runner.close()


def test_a_refused_object_is_named_with_its_file_line_and_what_was_meant(cluster, tmp_path):
    path = tmp_path / "queues.yaml"
    path.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: team}\n"
        "spec:\n  namespaceSelector: {}\n  cohortNam: all\n"
    )
    with pytest.raises(pykueue.ClusterError) as refused:
        cluster.apply(path)
    meant = "unknown field \"spec.cohortNam\"; did you mean 'cohortName'?"
    assert str(refused.value) == f"{path}:6: ClusterQueue team: {meant}"
    path.write_text(path.read_text().replace("cohortNam: all", "stopPolicy: Pause"))
    with pytest.raises(pykueue.ClusterError) as refused:
        cluster.apply(path)
    assert str(refused.value).startswith(f"{path}:1: ClusterQueue team: ")


@pytest.mark.parametrize(
    ("kind", "condition", "hint"),
    [
        ("job", "Admited", "a Workload has no condition 'Admited'; did you mean Admitted?"),
        ("workload", "finished", "a Workload has no condition 'finished'; did you mean Finished?"),
        ("clusterqueue", "Ready", "a ClusterQueue has no condition 'Ready'; it has Active"),
    ],
)
def test_a_misspelled_condition_is_refused_at_once(cluster, kind, condition, hint):
    with pytest.raises(pykueue.ClusterError, match=re.escape(hint)):
        cluster.wait("train", condition, kind=kind)
