"""What people do every day with one `pykueue up`: accounting, lists of items, names of jobs."""

import csv
import http.server
import io
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.e2e.conftest import KUBECTL, start_server, stop_server
from tests.e2e.controller_process import environment, free_port, wait_for


class Shell:
    def __init__(self, home):
        self.home = home
        self.server = None
        self.port = free_port()
        self.start()

    def start(self):
        options = ("--runtime", "process", "--no-isolation", "--listen", f"127.0.0.1:{self.port}")
        options += ("--log-level", "info", "--log-format", "json")
        self.server = start_server(self.home / "data", *options)

    def stop(self):
        stop_server(self.server)

    def __call__(self, *words, kubeconfig=None):
        settings = {**environment(), "HOME": str(self.home), "KUBECONFIG": str(kubeconfig or self.server.kubeconfig)}
        return subprocess.run(
            [sys.executable, "-P", "-m", "pykueue", *words],
            cwd=self.home,
            env=settings,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def history(self, *words, **options):
        result = self("history", "-o", "json", *words, **options)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["items"]


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("every-day"))
    yield shell
    shell.stop()


@pytest.fixture(scope="module")
def jane(shell):
    """The kubeconfig of a user who has a queue in a namespace of her own."""
    data = str(shell.server.directory)
    result = shell("user", "add", "jane", "--namespace", "research", "--data-dir", data)
    assert result.returncode == 0, result.stderr
    assert shell("create", "localqueue", "research", "--clusterqueue", "default", "-n", "research").returncode == 0
    words = [word.strip("`.,") for word in result.stdout.replace("=", " ").split()]
    return next(word for word in words if "kubeconfig" in word and Path(word).is_file())


def test_the_other_tasks_of_an_array_go_on_when_one_fails(shell):
    words = ("--name", "half", "--array", "1-4%1", "--", "sh", "-c", "echo task {index}; test {index} != 2")
    assert shell("submit", *words).returncode == 0
    assert shell("wait", "half").returncode == 1
    assert all(f"task {index}" in shell("logs", "half").stdout for index in range(1, 5))


def test_a_script_needs_neither_a_path_nor_the_executable_bit(shell):
    (shell.home / "train.sh").write_text('#!/bin/bash\n#PYKUEUE --name scripted\necho "$@" in "$BASH"\n')
    result = shell("submit", "-f", "train.sh", "--cpu", "2")
    assert (result.returncode, "--cpu 2 in /" in result.stdout) == (0, True), result


def test_modules_of_the_current_directory_are_not_imported(shell):
    """A file of one's own, or of a colleague, may have the name of a module of Python."""
    (shell.home / "random.py").write_text("raise SystemExit('imported')")
    try:
        result = shell("submit", "-f", "--notify", "http://127.0.0.1:9/", "--", "echo", "it runs")
    finally:
        (shell.home / "random.py").unlink()
    assert "it runs" in result.stdout, result


def test_each_item_of_a_list_is_a_task(shell):
    (shell.home / "items.json").write_text(json.dumps([{"lr": 0.1}, {"lr": 0.2, "name": "it's $HOME"}]))
    command = ["sh", "-c", 'echo "$PYKUEUE_ARRAY_INDEX $PYKUEUE_ARRAY_ITEM"']
    assert shell("submit", "--name", "sweep", "--from-json", "items.json", "--", *command).returncode == 0
    assert shell("wait", "sweep").returncode == 0
    lines = sorted(line.partition("] ")[2] or line for line in shell("logs", "sweep").stdout.splitlines())
    assert '0 {"lr":0.1}' in lines[0]
    assert """1 {"lr":0.2,"name":"it's $HOME"}""" in lines[1]


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", json.dumps(["x" * 600_000])])
def test_faulty_list_is_refused(shell, text):
    (shell.home / "faulty.json").write_text(text)
    result = shell("submit", "--from-json", "faulty.json", "--", "true")
    assert result.returncode == 2
    assert "faulty.json" in result.stderr


def test_history_counts_finished_deleted_and_stopped_jobs(shell, jane):
    assert shell("submit", "-f", "--name", "short", "--", "true").returncode == 0
    assert shell("submit", "-f", "--name", "broken", "--cpu", "500m", "--", "false").returncode == 1
    assert shell("submit", "--name", "long", "--", "sleep", "600", kubeconfig=jane).returncode == 0
    jobs = {item["job"]: item for item in shell.history("-A")}
    assert (jobs["short"]["outcome"], jobs["short"]["user"]) == ("finished", "pykueue-admin")
    assert (jobs["broken"]["outcome"], jobs["broken"]["cpuHours"] <= 0.01) == ("failed", True)
    assert (jobs["long"]["outcome"] in ("starting", "running"), jobs["long"]["user"]) == (True, "jane")

    assert shell("stop", "workload", "long", "-n", "research").returncode == 0
    wait_for(lambda: shell.history("-n", "research")[0]["evictions"], "the eviction is recorded")
    assert shell("delete", "workload", "long", "--yes", "-n", "research").returncode == 0
    assert shell("cancel", "short").returncode == 0

    shell.stop()
    shell.start()
    jobs = {item["job"]: item for item in shell.history("-A")}
    assert (jobs["long"]["outcome"], jobs["long"]["evictions"] >= 1) == ("deleted", True)
    assert jobs["short"]["outcome"] == "finished"

    assert [item["job"] for item in shell.history("-A", kubeconfig=jane)] == ["long"]
    (total,) = shell.history("-A", "--by", "user", "--user", "jane")
    assert (total["user"], total["jobs"], total["finished"]) == ("jane", 1, 0)
    table = shell("history", "--by", "queue", "-A").stdout.splitlines()
    assert table[0].split("   ")[0] == "QUEUE"
    assert [line.split()[0] for line in table[1:]] == ["default/default", "research/research"]
    rows = list(csv.DictReader(io.StringIO(shell("history", "-o", "csv").stdout)))
    assert {"short", "broken"} <= {row["job"] for row in rows}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_a_workload_is_described_by_the_name_of_its_job(shell):
    assert shell("submit", "-f", "--name", "told", "--", "true").returncode == 0
    result = shell("describe", "workload", "told", "-n", "default")
    assert "job-told-" in result.stdout.splitlines()[0], result.stderr


def test_events_say_what_happened_and_follow(shell, jane):
    assert shell("submit", "-f", "--name", "seen", "--", "true").returncode == 0
    lines = shell("events", "--for", "seen").stdout.splitlines()
    assert any("workload default/job-seen-" in line and "  Admitted: " in line for line in lines)
    assert shell("events", "--for", "seen", kubeconfig=jane).stdout == ""
    rows = json.loads(shell("events", "-o", "json", "-n", "default").stdout)["items"]
    assert {"QuotaReserved", "Admitted", "Started"} <= {row["reason"] for row in rows}
    command = [sys.executable, "-m", "pykueue", "events", "--follow", "--for", "followed"]
    settings = {**environment(), "KUBECONFIG": str(shell.server.kubeconfig)}
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as follower:
        assert shell("submit", "-f", "--name", "followed", "--", "true").returncode == 0
        assert "followed" in follower.stdout.readline()
        follower.terminate()


def test_log_has_a_line_for_each_decision(shell):
    assert shell("submit", "-f", "--name", "logged", "--", "true").returncode == 0
    entries = [json.loads(line) for line in (shell.home / "data.log").read_text().splitlines()]
    decisions = [entry for entry in entries if entry["logger"] == "pykueue.decisions"]
    mine = {entry["reason"]: entry for entry in decisions if entry["object"].startswith("default/job-logged-")}
    assert "Admitted by ClusterQueue default" in mine["Admitted"]["message"]


@pytest.fixture
def listener():
    """A web server that keeps what is posted, and fails the first time."""
    notices, codes = queue.Queue(), iter([503])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = next(codes, 200)
            if code == 200:
                notices.put(json.loads(body))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", notices
        server.shutdown()


def test_end_and_preemption_are_notified(shell, listener):
    url, notices = listener
    command = ["sh", "-c", "exit 3"]
    assert shell("submit", "-f", "--name", "ends", "--notify", url, "--", *command).returncode == 3
    assert notices.get(timeout=30) | {"pod": ""} == {
        "job": "ends",
        "event": "failed",
        "signal": "",
        "exitCode": 3,
        "pod": "",
    }
    script = "trap 'exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    words = ("--signal", "USR1@20", "--notify", url, "--", "sh", "-c", script)
    assert shell("submit", "--name", "stops", *words).returncode == 0
    wait_for(lambda: "ready" in shell("logs", "stops").stdout, "the job runs")
    assert shell("stop", "workload", "stops").returncode == 0
    notice = notices.get(timeout=30)
    assert (notice["job"], notice["event"], notice["signal"]) == ("stops", "stopped", "SIGUSR1")


@pytest.mark.parametrize("words", [("--notify", "file:///etc/passwd"), ("--mail", "a b@c"), ("--notify", "x")])
def test_faulty_addresses_are_refused(shell, words):
    result = shell("submit", *words, "--", "true")
    assert (result.returncode, words[0] in result.stderr) == (2, True)
