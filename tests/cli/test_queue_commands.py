"""create, list, stop, resume and delete against an API server in this process."""

import itertools
import json
import re

import pytest
from click.testing import CliRunner

from pykueue.api import registry, resources
from pykueue.api.errors import ApiError
from pykueue.cli import create, kubectl_plugin
from pykueue.cli.main import cli

JOBS = registry.scheme().for_path("batch", "v1", "jobs").resource
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}

_numbers = itertools.count(1)


@pytest.fixture
def name():
    return f"thing-{next(_numbers)}"


@pytest.fixture
def workload(cluster, name):
    """A workload with the job that owns it."""
    return create_workload(cluster, name, job=name)


def create_workload(cluster, *names, job):
    """Create Workloads that belong to a new Job."""
    place = {"namespace": "default"}
    owner = cluster.create(JOBS, {"metadata": {"name": job, **place}, "spec": {"suspend": True, "template": TEMPLATE}})
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    pod_sets = [{"name": "main", "count": 1, "template": TEMPLATE}]
    for name in names:
        metadata = {"name": name, "ownerReferences": [reference], **place}
        cluster.create(resources.WORKLOAD, {"metadata": metadata, "spec": {"queueName": "main", "podSets": pod_sets}})
    return names[0]


def test_flavors_with_the_same_resources_share_a_group():
    groups = create.resource_groups(
        nominalQuota=["a:cpu=9;memory=36Gi,b:cpu=1;memory=1Gi,c:nvidia.com/gpu=2"], borrowingLimit=["a:cpu=1"]
    )
    assert [(group["coveredResources"], [flavor["name"] for flavor in group["flavors"]]) for group in groups] == [
        (["cpu", "memory"], ["a", "b"]),
        (["nvidia.com/gpu"], ["c"]),
    ]
    assert groups[0]["flavors"][0]["resources"][0] == {"name": "cpu", "nominalQuota": "9", "borrowingLimit": "1"}


def test_a_cluster_queue_is_created_from_options(cluster, name):
    result = cluster.pykueue(
        "create",
        "cq",
        name,
        "--cohort",
        "all",
        "--nominal-quota",
        "spot:cpu=9;memory=36Gi",
        "--reclaim-within-cohort",
        "Any",
    )
    assert (result.exit_code, result.stdout) == (0, f"clusterqueue.kueue.x-k8s.io/{name} created\n")
    spec = cluster.get(resources.CLUSTER_QUEUE, name)["spec"]
    assert (spec["cohortName"], spec["preemption"]["reclaimWithinCohort"]) == ("all", "Any")


def test_flavors_that_do_not_exist_are_named(cluster, name):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": name}, "spec": {}})
    result = cluster.pykueue("create", "cq", name, "--nominal-quota", f"{name}:cpu=1,{name}-spot:cpu=1")
    assert result.exit_code == 0
    assert result.stdout == f"clusterqueue.kueue.x-k8s.io/{name} created\n"
    assert result.stderr.startswith(
        f"Warning: the ClusterQueue admits nothing until ResourceFlavor {name}-spot exists; existing: "
    )
    assert name in result.stderr.partition("existing: ")[2].partition(".")[0].split(", ")
    assert result.stderr.endswith(f"Create it: pykueue create resourceflavor {name}-spot\n")


def test_existing_flavors_are_no_reason_for_a_warning(cluster, name):
    cluster.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": name}, "spec": {}})
    assert cluster.pykueue("create", "cq", name, "--nominal-quota", f"{name}:cpu=1").stderr == ""


def test_a_quota_that_is_no_amount_is_refused_with_an_example(cluster, name):
    result = cluster.pykueue("create", "cq", name, "--nominal-quota", f"{name}:cpu=lots")
    assert (result.exit_code, result.output) == (
        1,
        "Error: invalid resource quota 'cpu=lots': 'lots' is not an amount; write for example cpu=4 or memory=16Gi\n",
    )


@pytest.mark.parametrize(
    ("words", "name"),
    [(["sumbit"], "submit"), (["list", "clusterqeue"], "clusterqueue"), (["ps"], "list"), (["sbatch"], "submit")],
)
def test_a_misspelled_command_is_answered_with_the_right_one(words, name):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert f"No such command {words[-1]!r}. Did you mean {name!r}?" in result.output


def test_a_dry_run_writes_nothing(cluster, name):
    result = cluster.pykueue("create", "resourceflavor", name, "--dry-run", "server")
    assert result.output == f"resourceflavor.kueue.x-k8s.io/{name} created (server dry run)\n"
    with pytest.raises(ApiError, match="not found"):
        cluster.get(resources.RESOURCE_FLAVOR, name)


def test_a_flavor_with_taints_is_shown_as_json(cluster, name):
    words = ["--node-labels", "pool=spot", "--node-taints", "spot=true:NoSchedule", "--tolerations", "gpu:NoExecute"]
    result = cluster.pykueue("create", "rf", name, *words, "--dry-run", "client", "-o", "json")
    assert json.loads(result.output)["spec"] == {
        "nodeLabels": {"pool": "spot"},
        "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
    }


def test_a_local_queue_wants_its_cluster_queue(cluster, name):
    result = cluster.pykueue("create", "lq", name, "-c", "nowhere")
    assert (result.exit_code, result.output) == (1, 'Error: clusterqueues.kueue.x-k8s.io "nowhere" not found\n')
    assert cluster.pykueue("create", "lq", name, "-c", "nowhere", "-i").exit_code == 0


def test_a_bad_quota_says_how_to_write_it(cluster, name):
    result = cluster.pykueue("create", "cq", name, "--nominal-quota", "cpu=9")
    assert result.exit_code == 1
    assert "write FLAVOR:RESOURCE=VALUE" in result.output


@pytest.mark.parametrize(("option", "policy"), [((), "HoldAndDrain"), (("--keep-already-running",), "Hold")])
def test_a_queue_is_held_and_released(cluster, name, option, policy):
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": {"namespaceSelector": {}}})
    assert cluster.pykueue("stop", "cq", name, *option).output == f"clusterqueue.kueue.x-k8s.io/{name}\n"
    assert cluster.get(resources.CLUSTER_QUEUE, name)["spec"]["stopPolicy"] == policy
    cluster.pykueue("resume", "cq", name)
    assert cluster.get(resources.CLUSTER_QUEUE, name)["spec"]["stopPolicy"] == "None"


def test_a_workload_is_stopped_and_resumed(cluster, workload):
    assert cluster.pykueue("stop", "workload", workload).output == f"workload.kueue.x-k8s.io/{workload} stopped\n"
    assert cluster.get(resources.WORKLOAD, workload, "default")["spec"]["active"] is False
    assert cluster.pykueue("resume", "workload", workload).output.endswith("resumed\n")
    assert cluster.get(resources.WORKLOAD, workload, "default")["spec"]["active"] is True


@pytest.mark.parametrize("words", [("stop",), ("resume",), ("delete", "--yes")])
def test_the_name_of_a_job_means_its_workload(cluster, name, words):
    create_workload(cluster, f"job-{name}", job=name)
    result = cluster.pykueue(words[0], "workload", name, *words[1:])
    assert result.exit_code == 0, result.output
    printed = {"stop": f"job-{name} stopped", "resume": f"job-{name} resumed", "delete": f"{name} deleted"}
    assert printed[words[0]] in result.output


def test_a_name_of_several_workloads_lists_them(cluster, name):
    create_workload(cluster, f"job-{name}-1", f"job-{name}-2", job=name)
    result = cluster.pykueue("stop", "workload", name)
    assert result.exit_code == 1
    assert f"name one of them: job-{name}-1, job-{name}-2" in result.stderr


def test_workloads_are_listed_with_their_jobs(cluster, workload):
    lines = cluster.pykueue("list", "workloads", "--for", f"job/{workload}").output.splitlines()
    assert lines[0].split("   ")[0].strip() == "NAME"
    assert lines[1].split()[:5] == [workload, "job", workload, "main", "PENDING"]


def test_a_status_filter_hides_the_rest(cluster, workload):
    result = cluster.pykueue("list", "wl", "--status", "admitted")
    assert result.stderr == "No resources found in default namespace.\n"


def test_cluster_queues_are_listed(cluster, name):
    cluster.create(resources.CLUSTER_QUEUE, {"metadata": {"name": name}, "spec": {"cohortName": "all"}})
    lines = cluster.pykueue("list", "cq").output.splitlines()
    headers = ["NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE", "QUOTA IN USE"]
    assert re.split(r"\s{2,}", lines[0]) == headers
    assert [name, "all", "0", "0", "false"] in [line.split()[:5] for line in lines]


def test_cluster_queues_are_listed_with_quota_and_usage(cluster, name):
    cluster.pykueue("create", "cq", name, "--nominal-quota", "a:cpu=4;memory=8Gi,b:cpu=2;memory=1Gi")
    usage = {"name": "a", "resources": [{"name": "cpu", "total": "3"}, {"name": "memory", "total": "512Mi"}]}
    patch = {"status": {"flavorsReservation": [usage]}}
    cluster.do(lambda client: client.patch(resources.CLUSTER_QUEUE, name, "", patch, subresource="status"))
    (line,) = [line for line in cluster.pykueue("list", "cq").output.splitlines() if line.startswith(f"{name} ")]
    assert line.endswith("   a: cpu 3/4, memory 512Mi/8Gi; b: cpu 0/2, memory 0/1Gi")


def test_deleting_a_workload_deletes_its_job(cluster, workload):
    result = cluster.pykueue("delete", "workload", workload, "--yes")
    assert (result.exit_code, result.output) == (0, f"jobs.batch/{workload} deleted\n")
    with pytest.raises(ApiError, match="not found"):
        cluster.get(JOBS, workload, "default")


def test_deleting_asks_first(cluster, workload):
    result = cluster.pykueue("delete", "workload", workload, stdin="n\n")
    assert f"  - jobs.batch/{workload} associated with the default/{workload} workload" in result.output
    assert result.output.endswith("Deletion is canceled\n")
    assert cluster.get(JOBS, workload, "default")


def test_deleting_fails_without_an_answer(cluster, workload):
    result = cluster.pykueue("delete", "workload", workload, stdin="")
    assert result.exit_code == 1
    assert "Error: Deletion is canceled: there is no answer. --yes deletes without" in result.stderr
    assert cluster.get(JOBS, workload, "default")


def test_the_kubectl_plugin_has_the_same_commands():
    result = CliRunner().invoke(kubectl_plugin.kueue, ["--help"])
    assert result.exit_code == 0
    assert {"create", "list", "stop", "resume", "explain", "get", "describe"} <= set(result.output.split())


def test_the_kubectl_plugin_refuses_other_kinds():
    result = CliRunner().invoke(kubectl_plugin.kueue, ["get", "pods"])
    assert result.exit_code == 2
    assert "pods is not one of workload, clusterqueue, localqueue, resourceflavor" in result.output


def test_a_name_without_a_kind_says_what_to_write(cluster):
    result = cluster.pykueue("stop", "train")
    assert "No such command 'train'. Name the kind first, for example `cli stop workload train`." in result.output
