"""Real Python jobs on this machine: queued, preempted, resumed, and adopted after a restart."""

import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.e2e import pseudo_terminal
from tests.e2e.conftest import KUBECTL, Kubectl, start_server, stop_server
from tests.e2e.controller_process import free_port
from tests.e2e.external_cluster import embedded

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH"),
    embedded("processes of this machine as pods"),
]

NODE = """
apiVersion: v1
kind: Node
metadata: {name: machine}
status: {capacity: {cpu: "8", memory: 8Gi}}
"""
TRAINING = """
import pathlib, signal, sys, time
name, here = sys.argv[1], pathlib.Path(sys.argv[2])
with (here / f"{name}.starts").open("a") as starts:
    starts.write("start\\n")
checkpoint = here / f"{name}.checkpoint"
if checkpoint.exists():
    print("resumed at", checkpoint.read_text(), flush=True)
    sys.exit(0)
def save(*_):
    checkpoint.write_text("step 7")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
while not (here / f"{name}.go").exists():
    time.sleep(0.02)
print("done", flush=True)
"""


def queue(cpus):
    kueue = "kueue.x-k8s.io/v1beta2"
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpus}]}
    return [
        {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "default"}},
        {
            "apiVersion": kueue,
            "kind": "ClusterQueue",
            "metadata": {"name": "shared"},
            "spec": {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            },
        },
        {"apiVersion": kueue, "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "shared"}},
        {"apiVersion": kueue, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 1000},
    ]


def job(name, directory, priority=""):
    labels = {"kueue.x-k8s.io/queue-name": "q"} | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})
    container = {
        "name": "train",
        "image": "local",
        "command": [sys.executable, "-c", TRAINING, name, str(directory)],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def started(directory, name):
    """Waits for the first start of a job's process."""
    deadline = time.monotonic() + 60
    while not (directory / f"{name}.starts").exists():
        assert time.monotonic() < deadline, f"{name} did not start"
        time.sleep(0.02)


def starts(directory, name):
    return (directory / f"{name}.starts").read_text().count("start")


class Machine:
    """`pykueue up` that may be killed and started again on the same data."""

    def __init__(self, directory):
        self._directory = directory
        self._nodes = directory / "nodes.yaml"
        self._nodes.write_text(NODE)
        self.start()

    def start(self):
        self.server = start_server(self._directory / "data", "--runtime", "process", "--nodes", str(self._nodes))

    def kill(self):
        self.server.process.kill()
        self.server.process.wait(timeout=10)
        self.server.process.stdout.close()


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    stop_server(machine.server)


@pytest.fixture
def kubectl(machine, tmp_path):
    return Kubectl(kubeconfig=machine.server.kubeconfig, namespace="default", home=tmp_path)


def finished(kubectl, name):
    kubectl("wait", "--for=condition=Complete", f"job/{name}", "--timeout=60s")


def test_the_preempted_saves_resumes_and_finishes(kubectl, tmp_path):
    kubectl.apply(*queue(1))
    kubectl.apply(job("patient", tmp_path))
    started(tmp_path, "patient")
    (tmp_path / "urgent.go").touch()
    kubectl.apply(job("urgent", tmp_path, "high"))
    finished(kubectl, "urgent")
    finished(kubectl, "patient")
    assert kubectl("logs", "job/urgent") == "training\ndone\n"
    assert kubectl("logs", "job/patient") == "resumed at step 7\n"
    assert starts(tmp_path, "patient") == 2


def test_after_a_kill_everything_is_accounted_for(kubectl, machine, tmp_path):
    kubectl.apply(*queue(2))
    for name in ("ends", "stays"):
        kubectl.apply(job(name, tmp_path))
        started(tmp_path, name)
    kubectl.apply(job("waits", tmp_path))
    machine.kill()
    (tmp_path / "ends.go").touch()
    machine.start()
    finished(kubectl, "ends")
    started(tmp_path, "waits")
    kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/stays", "job/waits", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.status.admittedWorkloads}=2", "clusterqueue/shared", "--timeout=60s")
    usage = kubectl("get", "clusterqueue", "shared", "-o", "jsonpath={.status.flavorsUsage[0].resources[0].total}")
    assert usage == "2"
    assert [starts(tmp_path, name) for name in ("ends", "stays", "waits")] == [1, 1, 1]


def test_ports_of_a_pod_are_forwarded(kubectl):
    port, local = free_port(), free_port()
    server = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    container = {"name": "web", "image": "local", "command": server, "readinessProbe": probe}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}})
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=30s")
    with kubectl.popen("port-forward", "pod/web", f"{local}:{port}") as forwarding:
        try:
            assert "Forwarding from" in forwarding.stdout.readline()
            with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=10) as answer:
                assert answer.status == 200
        finally:
            forwarding.terminate()


def test_commands_run_in_a_pod(kubectl):
    kubectl("run", "server", "--image=busybox", "--env=MODE=train", "--command", "--", "sleep", "60")
    kubectl("wait", "pod/server", "--for=condition=Ready", "--timeout=30s")
    assert kubectl("exec", "server", "--", "sh", "-c", "echo $MODE") == "train\n"
    assert kubectl("exec", "-i", "server", "--", "wc", "-c", stdin="hello") == "5\n"
    assert "exit code 3" in kubectl.fails("exec", "server", "--", "sh", "-c", "exit 3")
    assert "executable file not found" in kubectl.fails("exec", "server", "--", "no-such-command")
    assert kubectl("top", "pods", "--no-headers").split()[0] == "server"


def submit(kubectl, *words):
    """`pykueue submit -f`; its exit code and output."""
    command = [
        sys.executable,
        "-m",
        "pykueue",
        "submit",
        "-f",
        "--queue",
        "q",
        "--cpu",
        "100m",
        "-n",
        kubectl.namespace,
        *words,
    ]
    env = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    process = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    return process.returncode, process.stdout


def test_submit_ends_with_the_exit_code_of_the_command(kubectl):
    kubectl.apply(*queue("2"))
    code, output = submit(kubectl, "--name", "seven", "--", "sh", "-c", "echo $$ $(echo shell); exit 7")
    assert code == 7
    assert re.search(r"^\d+ shell$", output, re.MULTILINE)


def test_submit_notes_that_no_node_is_large_enough(kubectl):
    """The quota suffices, so that the job is admitted; who waits behind it learns why."""
    kubectl.apply(*queue("9000"))
    options = ["--queue", "q", "-n", kubectl.namespace]
    env = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}

    def run(*words):
        command = [sys.executable, "-m", "pykueue", *words]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True)

    note = run("submit", *options, "--cpu", "9000", "--name", "huge", "--", "true").stderr
    assert "Note: It can never start as things are: it asks for 9k cpu in each pod, the largest node has " in note
    run("submit", *options, "--name", "behind", "--", "true")
    explanation = run("explain", "job", "behind", *options[2:]).stdout
    huge = explanation.partition("Admitted, but no node is large enough for their pods:\n")[2]
    assert re.match(rf"  {kubectl.namespace}/job-huge-\w+ \(9k, .*\): delete it\n", huge), explanation


def test_submit_shows_the_output_of_all_pods(kubectl):
    kubectl.apply(*queue("2"))
    words = [
        "--name",
        "four",
        "--parallelism",
        "2",
        "--completions",
        "4",
        "--",
        "sh",
        "-c",
        "echo pod $JOB_COMPLETION_INDEX",
    ]
    code, output = submit(kubectl, *words)
    assert code == 0
    assert {f"pod {number}" for number in range(4)} <= set(output.splitlines())


def test_a_command_that_does_not_exist_is_explained(kubectl):
    kubectl.apply(*queue("2"))
    code, _ = submit(kubectl, "--name", "absent", "--", "no-such-command")
    command = [sys.executable, "-m", "pykueue", "explain", "job", "absent", "-n", kubectl.namespace]
    env = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    explanation = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True).stdout
    assert code == 128
    assert 'exec: "no-such-command": executable file not found in $PATH' in explanation


def test_the_doctor_checks_this_machine(kubectl, tmp_path):
    kubectl.apply(*queue("2"))
    kubectl("wait", "clusterqueue/shared", "--for=condition=Active", "--timeout=20s")
    kubectl("wait", "localqueue/q", "--for=condition=Active", "--timeout=20s")
    doctor = [sys.executable, "-m", "pykueue", "doctor", "--kubeconfig", str(kubectl.kubeconfig)]
    healthy = subprocess.run(doctor, capture_output=True, text=True, timeout=60, check=False)
    assert healthy.returncode == 0, healthy.stdout
    assert "ok   nodes        1 ready" in healthy.stdout
    huge = job("huge", tmp_path)
    huge["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "640"
    kubectl.apply(huge)
    kubectl("wait", "workloads.kueue.x-k8s.io", "--all", "--for=condition=QuotaReserved=False", "--timeout=20s")
    ill = subprocess.run(doctor, capture_output=True, text=True, timeout=60, check=False)
    assert ill.returncode == 1
    assert "It can never start as things are: " in ill.stdout
    assert "repair: ask for less: at most 2 cpu in each pod" in ill.stdout, ill.stdout


def test_kubectl_run_opens_a_shell_on_a_terminal(kubectl):
    command = [KUBECTL, "run", "box", "-it", "--rm", "--image=any", "--restart=Never", "--", "sh", "-c"]
    script = 'printf "ready> "; read line; test -t 0 && echo "$line on a terminal"; exit 3'
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    code, output = pseudo_terminal.run([*command, script], [(b"ready> ", b"typed\n")], environment=environment)
    assert code == 3, output
    assert "typed on a terminal" in output
    assert kubectl.json("get", "pods")["items"] == []


def test_kubectl_run_passes_its_input_on(kubectl):
    command = ("run", "box", "-i", "--rm", "--image=any", "--restart=Never", "--", "wc", "-c")
    done = kubectl.run(*command, stdin="x" * 100_000)
    assert done.returncode == 0, done.stderr
    assert "100000" in done.stdout
