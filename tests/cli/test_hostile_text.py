"""Text of users never reaches the terminal as a command, whatever command prints it."""

import http.server
import json
import re
import threading

import pytest
import yaml
from click.testing import CliRunner

from pykueue.api import yaml_text
from pykueue.apiserver.security import tokens
from pykueue.cli import output
from pykueue.cli.main import COMMANDS, cli

HOSTILE = "a\x1b]0;b\x07\x1b[2J\x7f\x9b\u202ec\r\nforged line\x00"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OBJECT = {
    "metadata": {
        "name": HOSTILE,
        "namespace": "default",
        "uid": HOSTILE,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {HOSTILE: HOSTILE, "kueue.x-k8s.io/queue-name": HOSTILE},
        "annotations": {HOSTILE: HOSTILE},
    },
    "spec": {
        "queueName": HOSTILE,
        "clusterQueue": HOSTILE,
        "cohortName": HOSTILE,
        "podSets": [{"name": HOSTILE, "count": 1, "template": {"spec": {"containers": []}}}],
        "template": {"spec": {"containers": [{"name": HOSTILE, "image": HOSTILE}]}},
        "nodeName": HOSTILE,
        "containers": [{"name": HOSTILE, "image": HOSTILE}],
        "holderIdentity": HOSTILE,
        "nodeLabels": {HOSTILE: HOSTILE},
    },
    "status": {
        "phase": HOSTILE,
        "conditions": [
            {"type": kind, "status": "True", "reason": HOSTILE, "message": HOSTILE}
            for kind in ("Failed", "QuotaReserved", "Active", HOSTILE)
        ],
    },
    "roleRef": {"kind": "ClusterRole", "name": HOSTILE},
    "subjects": [{"kind": "User", "name": HOSTILE}],
}
COMMAND_LINES = [
    "list clusterqueue",
    "list localqueue",
    "list localqueue -o yaml",
    "list workload",
    "list workload -o json",
    "list workload -o name",
    "list workload -o jsonpath={.items[*].metadata.name}",
    "list resourceflavor",
    "list pods --for job/a",
    "explain job a",
    "explain workload a",
    "explain clusterqueue a",
    "wait job a --timeout 1",
    "stop workload a",
    "resume workload a",
    "stop clusterqueue a",
    "delete workload a --yes",
    "create localqueue a -c b",
    "submit --name a --queue b -- true",
    "logs a",
    "logs pod/a",
    "doctor",
    "version",
]


class HostileApi(http.server.BaseHTTPRequestHandler):
    """Answers every request: with a refusal, or with hostile objects."""

    is_refusing = False

    def answer(self):
        body = {"kind": "Status", "status": "Failure", "reason": HOSTILE, "message": HOSTILE, "code": 403}
        if not self.is_refusing:
            is_list = self.command == "GET" and self.path.partition("?")[0].endswith("s")
            body = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [OBJECT]} if is_list else OBJECT
        data = json.dumps(body).encode()
        self.send_response(403 if self.is_refusing else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture(params=[False, True], ids=["objects", "refusals"])
def kubeconfig(request, tmp_path, monkeypatch):
    monkeypatch.setattr(HostileApi, "is_refusing", request.param)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HostileApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "a", "user": {"token": "a"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    yield tmp_path / "config"
    server.shutdown()
    server.server_close()


def printed(*arguments, **options):
    result = CliRunner().invoke(cli, list(arguments), **options)
    text = result.stdout + result.stderr
    assert not CONTROLS.search(text), text
    return text


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_objects_and_errors_of_an_api(line, kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    printed(*line.split(" "))


@pytest.mark.parametrize("line", [line for line in COMMAND_LINES if line.startswith("list ") and " -o " not in line])
@pytest.mark.parametrize("kubeconfig", [False], indirect=True, ids=["objects"])
def test_a_line_break_adds_no_row_to_a_table(line, kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert not [row for row in printed(*line.split(" ")).splitlines() if row.startswith("forged line")]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("up", "controller", "demo")])
def test_arguments_and_files(command, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("PYKUEUE_DATA_DIR", str(tmp_path / "a\x1b[2J"))
    hostile = str(tmp_path / "a\x1b[2J.yaml")
    for arguments in ([hostile], ["--data-dir", hostile], ["--kubeconfig", hostile], [f"--{HOSTILE[:9]}"]):
        assert printed(command, *arguments)


def test_users(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    tokens.issue(data / "tokens.csv", "a\x1b[2J", ("b\x1b[2J",), current="")
    (data / "kubeconfig").write_text("{}")
    assert r"a\x1b[2J" in printed("user", "list", "--data-dir", str(data))
    assert r"a\u001b[2J" in printed("user", "list", "--data-dir", str(data), "-o", "json")


def test_manifests_keep_their_values(tmp_path):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": HOSTILE, "b": "é"}}
    text = yaml_text.dump([document, {"a": "é"}])
    assert not CONTROLS.search(text)
    assert list(yaml.safe_load_all(text)) == [document, {"a": "é"}]
    assert text.endswith("a: é\n"), "other documents stay readable"
    (tmp_path / "a.yaml").write_text(text)
    printed("validate", str(tmp_path / "a.yaml"))
    printed("convert", str(tmp_path / "a.yaml"))


def test_structured_output_can_be_read(capsys):
    output.show_json({"a": HOSTILE})
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": HOSTILE}
    assert not CONTROLS.search(text)
