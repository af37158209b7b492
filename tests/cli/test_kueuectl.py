"""What kueuectl v0.19.2 printed for the same objects, word for word."""

import itertools
import json

import pytest
from click.testing import CliRunner

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.cli import completion, kubectl_plugin
from pykueue.cli.main import cli

JOBS = registry.scheme().for_path("batch", "v1", "jobs").resource
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
_numbers = itertools.count(1)


@pytest.fixture
def job(cluster):
    name = f"job-{next(_numbers)}"
    place = {"name": name, "namespace": "default"}
    cluster.create(JOBS, {"metadata": place, "spec": {"suspend": True, "template": {"spec": POD_SPEC}}})
    return name


def table(output):
    return [line.split() for line in output.splitlines()]


def test_pods_of_a_job_are_listed(cluster, job):
    labels = {"batch.kubernetes.io/job-name": job}
    for name, marks in ((f"{job}-x7k2p", labels), (f"{job}-other", {})):
        cluster.create(
            resources.POD, {"metadata": {"name": name, "namespace": "default", "labels": marks}, "spec": POD_SPEC}
        )
    lines = table(cluster.pykueue("list", "pods", "--for", f"jobs.batch/{job}").output)
    assert lines[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line[:4] for line in lines[1:]] == [[f"{job}-x7k2p", "0/1", "Pending", "0"]]


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["list", "pods", "--for", "job/nothing"], 0, "No resources found in default namespace.\n"),
        (
            ["list", "pods", "--for", "job"],
            1,
            "Error: invalid value 'job' used in --for flag; value must be in the format TYPE[.API-GROUP]/NAME\n",
        ),
        (["list", "pods", "--for", "nothing/x"], 1, 'Error: the server doesn\'t have a resource type "nothing"\n'),
        (["list", "workload", "--for", "job"], 1, "Error: --for must be in resource/name form\n"),
        (["list", "lq", "-n", "kube-system"], 0, "No resources found in kube-system namespace.\n"),
        (["list", "lq", "-A"], 0, "No resources found\n"),
        (["stop", "lq", "nothing"], 1, 'Error: localqueues.kueue.x-k8s.io "nothing" not found\n'),
        (["delete", "workload", "nothing"], 1, 'workloads.kueue.x-k8s.io "nothing" not found\n'),
        (["delete", "workload", "a", "--all"], 1, "Error: name cannot be provided when a selector is specified\n"),
        (
            ["create", "rf", "f", "--tolerations", "=v", "--dry-run", "client"],
            1,
            "Error: invalid toleration spec: =v: write KEY[=VALUE][:EFFECT]\n",
        ),
    ],
)
def test_messages(cluster, words, code, output):
    result = cluster.pykueue(*words)
    assert (result.exit_code, result.output) == (code, output)


def test_a_kind_without_pods_is_refused(cluster):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "podless"}, "spec": {}})
    result = cluster.pykueue("list", "pods", "--for", "resourceflavor/podless")
    assert result.output == "Error: unsupported kind: ResourceFlavor\n"


def test_lists_are_shown_as_json_and_by_path(cluster):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "shown", "labels": {"a": "b"}}, "spec": {}})
    listed = json.loads(cluster.pykueue("list", "rf", "-l", "a=b", "-o", "json").output)
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("ResourceFlavorList", ["ResourceFlavor"])
    names = cluster.pykueue("list", "rf", "-l", "a=b", "-o", 'jsonpath={.items[*].metadata.name}{"\\n"}')
    assert names.output == "shown\n"


def test_an_unknown_format_names_the_known_ones(cluster):
    result = cluster.pykueue("list", "rf", "-o", "toml")
    assert 'the output format "toml", allowed: json,yaml,name,wide,jsonpath=TEMPLATE' in result.output


def test_a_dry_run_of_a_queue_s_stop_names_it(cluster):
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": "dry"}, "spec": {"namespaceSelector": {}}})
    result = cluster.pykueue("stop", "cq", "dry", "--dry-run", "client")
    assert result.output == "clusterqueue.kueue.x-k8s.io/dry  (client dry run)\n"


def test_all_workloads_are_deleted_after_a_question(cluster, job):
    owner = cluster.get(JOBS, job, "default")["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": owner["uid"], "controller": True}
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}]
    metadata = {"name": job, "namespace": "default", "ownerReferences": [reference]}
    cluster.create(resources.WORKLOAD, {"metadata": metadata, "spec": {"queueName": "main", "podSets": pod_sets}})
    result = cluster.pykueue("delete", "workload", "--all", stdin="y\n")
    assert result.output == (
        "This operation will also delete the jobs associated with these workloads.\n"
        f"Do you want to proceed (y/n)? jobs.batch/{job} deleted\n"
    )
    with pytest.raises(ApiError, match="not found"):
        cluster.get(JOBS, job, "default")


def test_version_tells_the_client_s(cluster):
    assert cluster.pykueue("version").output.startswith("Client Version: v")


def test_names_of_objects_are_completed(cluster, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    for name, policy in (("holds", "Hold"), ("goes", "None")):
        spec = {"namespaceSelector": {}, "stopPolicy": policy}
        cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": spec})
    assert completion.words(kubectl_plugin.kueue, ["resume", "clusterqueue", ""]) == ["holds"]
    assert "goes" in completion.words(kubectl_plugin.kueue, ["stop", "cq", "g"])
    assert completion.words(kubectl_plugin.kueue, ["create", "lq", "x", "--clusterqueue", "ho"]) == ["holds"]


def test_names_of_jobs_are_completed_where_jobs_are_named(cluster, job, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}]}
    cluster.create(resources.WORKLOAD, {"metadata": {"name": "w-1", "namespace": "default"}, "spec": spec})
    for words in (["logs"], ["wait"], ["explain"], ["explain", "job"], ["explain", "jobs"]):
        assert job in completion.words(cli, [*words, job[:-1]]), words
    assert completion.words(cli, ["explain", "workload", "w-"]) == ["w-1"]
    assert completion.words(cli, ["explain", "pyt"]) == ["pytorchjob"]
    assert completion.words(cli, ["explain", "nosuchkind", ""]) == []
    assert completion.words(cli, ["demo", "gpu"]) == ["gpu-preemption"]


def test_commands_are_completed_without_a_cluster(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert completion.words(kubectl_plugin.kueue, ["sto"]) == ["stop"]
    assert completion.words(kubectl_plugin.kueue, ["stop", "cq", ""]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell):

    assert "_PYKUEUE_COMPLETE" in CliRunner().invoke(cli, ["completion", shell]).output


def test_a_cluster_that_is_not_there_is_told_with_a_hint(tmp_path):
    nobody = tmp_path / "kubeconfig"
    nobody.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "current-context": "c",
            }
        )
    )
    result = CliRunner().invoke(cli, ["list", "cq", "--kubeconfig", str(nobody)])
    assert result.exit_code == 1
    assert result.output.endswith("Is the cluster running? `pykueue up` starts one on this machine.\n")


def test_a_submitted_job_is_shown_as_asked(cluster):
    cluster.create(
        resources.LOCAL_QUEUE, {"metadata": {"name": "shown", "namespace": "default"}, "spec": {"clusterQueue": "x"}}
    )
    words = ["submit", "--queue", "shown", "--kubeconfig", str(cluster.kubeconfig), "-o", "json", "--", "true"]
    job = json.loads(CliRunner().invoke(cli, words).stdout)
    assert (job["kind"], job["spec"]["suspend"]) == ("Job", True)


def test_doctor_reports_in_json(cluster):
    result = cluster.pykueue("doctor", "-o", "json")
    checks, _ = json.JSONDecoder().raw_decode(result.stdout)
    assert {"subject", "ok", "detail", "repair"} == set(checks[0])
