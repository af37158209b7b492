"""Journeys of a user at a real terminal (tmux), with one `pykueue up` for all of them."""

import shutil
import sys

import pytest
from tests.e2e.conftest import stop_server
from tests.e2e.controller_process import wait_for
from tests.e2e.terminal import Machine, Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not on PATH")

CHECKPOINT = """
trap 'echo saved $step; echo $step > checkpoint; exit 0' USR1
step=$(cat checkpoint 2>/dev/null || echo 0); echo from $step
while [ $step -lt ${1} ]; do step=$((step + 1)); sleep 0.1; done
echo finished $step
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = Machine(tmp_path_factory.mktemp("journeys"))
    yield machine
    stop_server(machine.server)


@pytest.fixture
def terminal(machine):
    terminal = Terminal(machine.home, machine.settings)
    yield terminal
    terminal.close()


def test_interactive_shell_waits_in_the_queue_and_attaches(terminal):
    terminal.run("pykueue run --pty --name shell -- sh; echo code $?")
    terminal.run("echo $((6 * 7)) on a $(test -t 0 && echo terminal)")
    terminal.until("42 on a terminal")
    terminal.run("exit 5")
    terminal.until("\ncode 5")


def test_ctrl_c_leaves_the_job_running_until_it_is_cancelled(terminal, machine):
    terminal.run("pykueue submit -f --name keeps --cpu 500m -- sh -c 'echo started; sleep 600'")
    terminal.until("\nstarted")
    terminal.type("C-c")
    terminal.until("goes on")
    assert "running" in machine.pykueue("explain job keeps").stdout
    terminal.run("clear; pykueue cancel keeps")
    terminal.until("job.batch/keeps")
    wait_for(lambda: machine.pykueue("explain job keeps").returncode, "the job is gone")


@pytest.mark.parametrize("tasks", [12, pytest.param(100, marks=pytest.mark.torture)])
def test_array(terminal, machine, tasks):
    terminal.run(
        f"pykueue submit --name array{tasks} --cpu 100m --array 0-{tasks - 1}%10 -- sh -c 'echo task {{index}}'"
    )
    terminal.run(f"pykueue wait array{tasks}")
    terminal.until(f"job.batch/array{tasks} complete")
    lines = machine.pykueue(f"logs array{tasks}").stdout.splitlines()
    assert {f"task {index}" for index in range(tasks)} <= {line.strip() for line in lines}


def test_dependency_chain(terminal, machine):
    terminal.run("pykueue submit --name prepare -- sh -c 'echo data > prepared'")
    terminal.run("pykueue submit --name use --after prepare -- cat prepared")
    terminal.run("pykueue submit --name never --after-notok prepare -- true")
    terminal.run("pykueue submit -f --name last --after use -- echo the end")
    terminal.until("job.batch/last complete")
    assert machine.pykueue("logs use").stdout == "data\n"
    assert machine.pykueue("cancel never").returncode == 0


def test_preempted_job_resumes_from_its_checkpoint(terminal, machine):
    (machine.home / "train.sh").write_text(CHECKPOINT)
    terminal.run("pykueue submit --name resumes --signal USR1@20 -- sh train.sh 60")
    wait_for(lambda: "from 0" in machine.pykueue("logs resumes").stdout, "the job runs")
    terminal.run("pykueue stop workload resumes")
    wait_for((machine.home / "checkpoint").exists, "the checkpoint is written")
    (machine.home / "train.sh").write_text(CHECKPOINT.replace("${1}", "1"))
    terminal.run("pykueue resume workload resumes; pykueue wait resumes")
    terminal.until("job.batch/resumes complete")
    step = (machine.home / "checkpoint").read_text().strip()
    assert f"from {step}\n" in machine.pykueue("logs resumes").stdout


def test_job_that_runs_out_of_memory_says_so(terminal, machine):
    terminal.run("pykueue submit -f --name greedy --memory 64Mi -- python3 -c \"x = b'x' * 400_000_000\"; echo code $?")
    terminal.until("\ncode ")
    assert "\ncode 0" not in terminal.text()
    assert "OOMKilled" in machine.pykueue("explain job greedy").stdout


def test_gpu_contention(terminal, machine):
    for name in ("first", "second", "third"):
        terminal.run(
            f"pykueue submit --name gpu-{name} --cpu 100m --gpus 1 -- sh -c 'echo gpu $CUDA_VISIBLE_DEVICES; sleep 600'"
        )
        terminal.until(f"job.batch/gpu-{name} created")
    wait_for(lambda: "gpu 0\n" in machine.pykueue("logs gpu-first").stdout, "the first job has GPU 0")
    wait_for(lambda: "gpu 1\n" in machine.pykueue("logs gpu-second").stdout, "the second job has GPU 1")
    assert "nvidia.com/gpu: 1 asked, 0 unused, 1 short" in machine.pykueue("explain job gpu-third").stdout
    terminal.run("pykueue cancel gpu-first")
    wait_for(lambda: "gpu 0\n" in machine.pykueue("logs gpu-third").stdout, "the third job has the free GPU")
    assert machine.pykueue("cancel gpu-second gpu-third").returncode == 0


def test_two_users_have_quotas_of_their_own(terminal, machine):
    data = machine.server.directory
    for user in ("ann", "bob"):
        terminal.run(f"pykueue user add {user} --namespace {user} --data-dir {data}")
        wait_for((machine.home / f"{user}.kubeconfig").exists, "the user has a kubeconfig")
        assert machine.pykueue(f"create clusterqueue {user} --nominal-quota default:cpu=1").returncode == 0
        assert machine.pykueue(f"create localqueue main --clusterqueue {user} -n {user}").returncode == 0
    sleep = "--cpu 600m -- sleep 600"
    for user, name in (("ann", "one"), ("ann", "two"), ("bob", "three")):
        assert machine.pykueue(f"submit --kubeconfig {user}.kubeconfig --name {name} {sleep}").returncode == 0

    def state(user, name):
        return machine.pykueue(f"explain --kubeconfig {user}.kubeconfig job {name}").stdout.partition("\n")[0]

    wait_for(lambda: "running" in state("bob", "three"), "bob's job runs")
    assert "pending in ClusterQueue ann" in state("ann", "two")
    refused = machine.pykueue("cancel --kubeconfig bob.kubeconfig -n ann one")
    assert (refused.returncode, "forbidden" in refused.stderr) == (1, True)
    assert machine.pykueue("cancel -n ann one two").returncode == 0
    assert machine.pykueue("cancel -n bob three").returncode == 0


def test_restore_from_backup(terminal, machine):
    assert machine.pykueue("submit -f --name kept -- echo kept").returncode == 0
    data = machine.server.directory
    assert machine.pykueue(f"backup --data-dir {data} backup.tar").returncode == 0
    terminal.run("pykueue delete job kept; pykueue delete clusterqueue default")
    wait_for(lambda: machine.pykueue("explain job kept").returncode, "the job is gone")
    stop_server(machine.server)
    shutil.move(data, data.with_name("lost"))
    result = machine.pykueue(f"restore --data-dir {data} backup.tar")
    assert result.returncode == 0, result.stderr
    machine.start()
    assert "Job default/kept succeeded" in machine.pykueue("explain job kept").stdout
    assert machine.pykueue("submit -f --name after -- echo again").stdout.splitlines()[1] == "again"


def test_notebook(terminal, machine):
    """As in a notebook, statements of `python -m asyncio` run on a loop that is running already."""
    terminal.run(f"{sys.executable} -m asyncio")
    terminal.until(">>> import asyncio")
    for line in (
        "import pykueue; cluster = pykueue.connect()",
        "name = cluster.submit(['echo', 'hello'], name='cell', cpu='100m')",
        "print('condition', cluster.wait(name)['status']['conditions'][-1]['type'])",
        "print(cluster.explain(name).summary); cluster.close()",
        "with pykueue.Cluster(cpu=2) as virtual: print('virtual', virtual.wait(virtual.submit(duration='1h'))['kind'])",
        "",
        "await asyncio.sleep(0, 'the loop goes on')",
    ):
        terminal.run(line)
    terminal.until("\n'the loop goes on'")
    assert "Job default/cell succeeded" in terminal.text()
    assert "virtual Workload" in terminal.text()
    assert machine.pykueue("logs cell").stdout == "hello\n"
