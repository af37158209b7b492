"""Who gets in, and how far: real kubectl with other people's kubeconfigs, and bare requests."""

import dataclasses
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from tests.e2e.conftest import start_server, stop_server
from tests.e2e.controller_process import environment
from tests.e2e.external_cluster import embedded

pytestmark = embedded("its users, tokens and files")


def pykueue(*arguments):
    command = [sys.executable, "-m", "pykueue", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)


@pytest.fixture
def jane(kubectl, server, tmp_path):
    """Kubectl as a user with permissions in the namespace of the test."""
    config = tmp_path / "jane.kubeconfig"
    options = ["--namespace", kubectl.namespace, "--data-dir", str(server.directory), "--kubeconfig", str(config)]
    done = pykueue("user", "add", f"jane-{kubectl.namespace}", *options)
    assert done.returncode == 0, done.stderr
    return dataclasses.replace(kubectl, kubeconfig=config)


def status(server, path, *, token=None, method="GET", data=None, headers=None):
    """Code and body of a bare request."""
    request = urllib.request.Request(server.url + path, method=method, data=data, headers=headers or {})
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    context = ssl.create_default_context(cafile=server.directory / "pki" / "ca.crt")
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anybody_may_ask_for_health_and_version(server, path):
    assert status(server, path)[0] == 200


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/api/v1/pods", "/openapi/v2", "/metrics", "/nowhere"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_nothing_else_is_shown_without_a_good_token(server, path, token):
    code, body = status(server, path, token=token)
    assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1/namespaces/default/pods/ghost", 404, "NotFound"),
        ("GET", "/apis/batch/v1/ghosts", 404, "NotFound"),
        ("PUT", "/api/v1/namespaces", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/pods?limit=x", 400, "BadRequest"),
        ("GET", "/api/v1/pods?labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersion=x", 400, "BadRequest"),
    ],
)
def test_refusals_have_the_code_and_reason_of_kubernetes(server, method, path, code, reason):
    actual_code, body = status(server, path, token=server.token, method=method, data=b"" if method != "GET" else None)
    assert (actual_code, json.loads(body)["reason"]) == (code, reason)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_group_is_a_page_that_is_not_there(server, method):
    data = b"{}" if method == "POST" else None
    response = status(server, "/apis/no.such/v1/things", token=server.token, method=method, data=data)
    assert response == (404, "404 page not found\n")


def test_a_body_too_large_is_refused(server):
    data = b'{"kind":"Namespace","data":"%s"}' % (b"x" * (4 * 2**20))
    headers = {"Content-Type": "application/json"}
    code, body = status(server, "/api/v1/namespaces", token=server.token, method="POST", data=data, headers=headers)
    assert (code, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")


def test_an_unknown_media_type_is_refused(server):
    headers = {"Content-Type": "text/html"}
    code, _ = status(server, "/api/v1/namespaces", token=server.token, method="POST", data=b"<p>", headers=headers)
    assert code == 415
    assert status(server, "/api/v1/namespaces", token=server.token, headers={"Accept": "image/png"})[0] == 406


def test_an_administrator_may_do_everything(kubectl):
    assert kubectl("auth", "can-i", "*", "*") == "yes\n"


def test_whoami(jane):
    assert f"jane-{jane.namespace}" in jane("auth", "whoami")


def test_a_user_works_in_her_namespace(jane):
    jane("create", "job", "mine", "--image=busybox")
    assert jane("get", "jobs", "-o", "name") == "job.batch/mine\n"
    assert jane("auth", "can-i", "create", "jobs") == "yes\n"


def test_a_user_sees_no_other_namespace(jane):
    refusal = jane.fails("get", "pods", "-n", "default")
    who = f"jane-{jane.namespace}"
    assert refusal == (
        f'Error from server (Forbidden): pods is forbidden: User "{who}" cannot list resource "pods" '
        'in API group "" in the namespace "default"\n'
    )
    assert "at the cluster scope" in jane.fails("get", "clusterqueues")


def test_a_user_may_ask_what_she_may_do(jane):
    done = jane.run("auth", "can-i", "delete", "nodes")
    assert (done.returncode, done.stdout) == (1, "no\n")
    assert "jobs.batch" in jane("auth", "can-i", "--list")


def test_a_user_may_not_impersonate(jane):
    assert "cannot impersonate" in jane.fails("get", "pods", "--as=pykueue-admin")


def test_an_administrator_may_impersonate(kubectl, jane):
    who = f"jane-{jane.namespace}"
    assert "Forbidden" in kubectl.fails("get", "nodes", f"--as={who}")
    assert kubectl("auth", "can-i", "create", "jobs", f"--as={who}") == "yes\n"


def test_rights_cannot_be_widened_by_their_holder(kubectl, jane):
    kubectl("create", "rolebinding", "manage", "--clusterrole=admin", f"--user=jane-{jane.namespace}")
    jane("create", "role", "reader", "--verb=get", "--resource=pods")
    refusal = jane.fails("create", "role", "nodes", "--verb=get", "--resource=nodes")
    assert "is attempting to grant RBAC permissions not currently held" in refusal
    assert "not currently held" in jane.fails("create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=x")


def test_an_aggregated_role_gathers_new_rules(kubectl):
    label = f"{kubectl.namespace}.example.org/gather"
    metadata = {"name": f"{kubectl.namespace}-all"}
    gathering = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
        "rules": [],
    }
    kubectl.apply(gathering)
    kubectl("create", "clusterrole", f"{kubectl.namespace}-part", "--verb=get", "--resource=pods")
    kubectl("label", "clusterrole", f"{kubectl.namespace}-part", f"{label}=true")
    condition = "--for=jsonpath={.rules[0].resources[0]}=pods"
    kubectl("wait", condition, f"clusterrole/{kubectl.namespace}-all", "--timeout=20s")


def test_a_removed_user_is_out(jane, server):
    done = pykueue("user", "remove", f"jane-{jane.namespace}", "--data-dir", str(server.directory))
    assert done.returncode == 0
    with jane.popen("get", "pods", "-w") as watch:
        watch.wait(timeout=30)
    assert "must be logged in" in jane.fails("get", "pods") or "Unauthorized" in jane.fails("get", "pods")


def test_a_removed_user_leaves_no_rights_to_a_new_one_of_that_name(kubectl, jane, server, tmp_path):
    who, data = f"jane-{jane.namespace}", ["--data-dir", str(server.directory)]
    kubectl("create", "rolebinding", "shared", "--clusterrole=view", f"--user={who}", "--user=other")
    done = pykueue("user", "remove", who, *data)
    assert (done.returncode, f"RoleBinding {who}:edit of namespace {jane.namespace} deleted" in done.stdout) == (
        0,
        True,
    )
    bindings = kubectl.json("get", "rolebindings")["items"]
    assert [[subject["name"] for subject in binding["subjects"]] for binding in bindings] == [["other"]]
    kubectl("create", "namespace", f"{jane.namespace}-next")
    options = ["--namespace", f"{jane.namespace}-next", "--kubeconfig", str(tmp_path / "jane.kubeconfig"), *data]
    assert pykueue("user", "add", who, *options).returncode == 0
    assert "forbidden" in jane.fails("get", "pods")


def test_a_user_who_is_added_again_keeps_the_other_namespaces_and_is_told_so(jane, server, tmp_path):
    second = f"{jane.namespace}-b"
    options = ["--data-dir", str(server.directory), "--kubeconfig", str(tmp_path / "second.kubeconfig")]
    done = pykueue("user", "add", f"jane-{jane.namespace}", "--namespace", second, *options)
    assert f"as before also {jane.namespace}" in done.stdout
    jane("get", "pods")
    dataclasses.replace(jane, kubeconfig=tmp_path / "second.kubeconfig")("get", "pods", "-n", jane.namespace)


def test_users_who_are_added_at_once_all_get_in(server, kubectl, tmp_path):
    names = [f"u{number}-{kubectl.namespace}" for number in range(4)]
    data = ["--data-dir", str(server.directory), "--namespace", kubectl.namespace]
    command = [sys.executable, "-m", "pykueue", "user", "add"]
    adding = [
        subprocess.Popen(
            [*command, name, *data, "--kubeconfig", str(tmp_path / name)], env=environment(), stdout=subprocess.DEVNULL
        )
        for name in names
    ]
    assert [process.wait(timeout=60) for process in adding] == [0] * len(names)
    for name in names:
        token = json.loads((tmp_path / name).read_text())["users"][0]["user"]["token"]
        assert status(server, f"/api/v1/namespaces/{kubectl.namespace}/pods", token=token)[0] == 200


@pytest.mark.parametrize("name", ["system:masters", "pykueue-admin", "a\nb", " x", "a/b"])
def test_a_name_that_means_something_else_is_no_user(server, name):
    done = pykueue("user", "add", name, "--namespace", "default", "--data-dir", str(server.directory))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_an_open_data_directory_is_refused(tmp_path):
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(0o777)
    done = pykueue("up", "--data-dir", str(directory), "--listen", "127.0.0.1:0")
    assert (done.returncode, "is writable by other users (mode 0777)" in done.stderr) == (1, True)
    assert list(directory.iterdir()) == []


def test_nothing_in_the_data_directory_is_open_under_an_open_umask(tmp_path):
    before = os.umask(0)
    try:
        server = start_server(tmp_path / "data", "--runtime", "process")
    finally:
        os.umask(before)
    stop_server(server)
    files = [server.directory, *server.directory.rglob("*")]
    assert [str(path) for path in files if path.lstat().st_mode & 0o077 and not path.is_symlink()] == []


def test_a_role_that_kueue_ships_applies_over_ours(kubectl):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kueue-job-editor-role"},
        "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}],
    }
    kubectl.apply(role, options=("--server-side",))
    assert kubectl.json("get", "clusterrole", "kueue-job-editor-role")["rules"] == role["rules"]


def test_a_service_account_acts_with_its_own_rights(kubectl, server):
    kubectl("create", "serviceaccount", "bot")
    kubectl("create", "rolebinding", "bot", "--clusterrole=view", f"--serviceaccount={kubectl.namespace}:bot")
    token = kubectl("create", "token", "bot").strip()
    pods = f"/api/v1/namespaces/{kubectl.namespace}/pods"
    assert status(server, pods, token=token)[0] == 200
    assert status(server, "/api/v1/nodes", token=token)[0] == 403
    kubectl("delete", "serviceaccount", "bot")
    assert status(server, pods, token=token)[0] == 401


def test_files_are_private(server):
    private = [server.kubeconfig, server.directory / "tokens.csv", *(server.directory / "pki").iterdir()]
    assert {oct(path.stat().st_mode & 0o777) for path in private} == {"0o600"}
    assert oct(server.directory.stat().st_mode & 0o777) == "0o700"


def test_a_second_instance_on_the_same_data_says_who_holds_it(server):
    done = pykueue("up", "--data-dir", str(server.directory), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert f"is in use by process {server.process.pid}" in done.stderr


def test_a_taken_port_is_one_line(server, tmp_path):
    done = pykueue("up", "--data-dir", str(tmp_path / "other"), "--listen", server.url.removeprefix("https://"))
    assert (done.returncode, "cannot listen on" in done.stderr, "Traceback" in done.stderr) == (1, True, False)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_addresses_are_refused_without_a_name(tmp_path, host):
    done = pykueue("up", "--data-dir", str(tmp_path / "data"), "--listen", f"{host}:0")
    assert (done.returncode, "add --reachable-as NAME" in done.stderr) == (2, True)


def test_a_name_that_is_no_host_is_refused(tmp_path):
    done = pykueue("up", "--data-dir", str(tmp_path / "data"), "--reachable-as", "a b")
    assert (done.returncode, "'a b' is neither the name of a host nor an IP address" in done.stderr) == (2, True)


def test_the_certificate_and_the_kubeconfig_have_the_name_of_the_machine(tmp_path):
    other = start_server(tmp_path / "data", "--listen", "0.0.0.0:0", "--reachable-as", "127.0.0.2")
    try:
        assert other.url.startswith("https://127.0.0.2:")
        assert status(other, "/api/v1/namespaces", token=other.token)[0] == 200
    finally:
        stop_server(other)


def test_objects_and_users_survive_a_restart(tmp_path):
    first = start_server(tmp_path / "data")
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"metadata": {"name": "kept"}}).encode()
    code, _ = status(first, "/api/v1/namespaces", token=first.token, method="POST", data=body, headers=headers)
    assert code == 201
    token = first.token
    stop_server(first)
    second = start_server(tmp_path / "data")
    try:
        assert status(second, "/api/v1/namespaces/kept", token=token)[0] == 200
    finally:
        stop_server(second)


def test_ctrl_c_stops_cleanly(tmp_path):
    server = start_server(tmp_path / "data")
    stop_server(server)
    assert (server.process.returncode, (tmp_path / "data.log").read_text()) == (0, "")


def test_submit_says_what_the_user_may_not_read(jane):
    done = pykueue("submit", "-n", "default", "--kubeconfig", str(jane.kubeconfig), "--", "true")
    assert done.returncode == 1
    assert "is forbidden" in done.stderr
    assert "Choose a queue with --queue, or a namespace with -n." in done.stderr


def test_submit_tells_of_a_priority_class_that_the_user_cannot_look_up(jane, kubectl):
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "main"}}
    kubectl.apply({**queue, "spec": {"clusterQueue": "none"}})
    options = ["-n", kubectl.namespace, "--kubeconfig", str(jane.kubeconfig), "--name", "hasty"]
    done = pykueue("submit", *options, "--priority", "nope", "--", "true")
    assert done.returncode == 0
    assert (
        f"Note: Job {kubectl.namespace}/hasty is in no queue: WorkloadPriorityClass nope does not exist" in done.stderr
    )
