"""Where kubeconfigs of workers may come from."""

import os

import pytest
import yaml

from pykueue.controllers.multikueue import kubeconfig
from pykueue.controllers.multikueue.clusters import ClusterController
from pykueue.controllers.multikueue.kubeconfig import KubeconfigError

CLUSTER = {"server": "https://worker.example.com", "certificate-authority-data": "Y2E="}
PROVIDER = {"name": "example", "execConfig": {"command": "login", "apiVersion": "client.authentication.k8s.io/v1"}}


def profile(*names):
    providers = [{"name": name, "cluster": CLUSTER} for name in names]
    return {"metadata": {"name": "profile"}, "status": {"accessProviders": providers}}


def test_a_profile_gives_the_cluster_and_the_configuration_the_command():
    document = kubeconfig.from_profile(profile("other", "example"), [PROVIDER])
    assert document["clusters"][0]["cluster"] == CLUSTER
    assert document["users"][0]["user"] == {"exec": PROVIDER["execConfig"]}


@pytest.mark.parametrize(
    ("names", "providers", "message"),
    [
        (["example"], [], "no access provider configured"),
        (["other"], [PROVIDER], "no matching access provider for cluster profile 'profile'"),
    ],
)
def test_a_profile_without_a_provider_is_refused(names, providers, message):
    with pytest.raises(KubeconfigError, match=message) as refused:
        kubeconfig.from_profile(profile(*names), providers)
    assert refused.value.reason == "BadClusterProfile"


def test_a_link_does_not_lead_out_of_the_directory(tmp_path):
    directory, outside = tmp_path / "kubeconfigs", tmp_path / "secret"
    directory.mkdir()
    outside.write_text("x")
    (directory / "link").symlink_to(outside)
    (directory / "file").write_text("x")
    assert kubeconfig.allowed_path(str(directory / "file"), directory) == directory / "file"
    for path in (directory / "link", directory / ".." / "secret", outside):
        with pytest.raises(KubeconfigError, match="kubeconfig path is not under the allowed prefix"):
            kubeconfig.allowed_path(str(path), directory)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: b", "clusters: 3", "current-context: x"])
def test_what_is_no_kubeconfig_is_refused(text):
    with pytest.raises(KubeconfigError) as refused:
        kubeconfig.read(text)
    assert refused.value.reason == "InsecureKubeConfig"


@pytest.mark.parametrize(
    ("server", "is_valid"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://[::1]:6443", True),
        ("https://Worker.Example.com", True),
        ("https://bad_host", False),
        ("127.0.0.1:6443", False),
        ("https://", False),
    ],
)
def test_a_server_is_an_address_or_a_dns_name(server, is_valid):
    assert kubeconfig.is_valid_host(server) == is_valid


# A hostile author of a kubeconfig


TOKEN = {"token": "t"}
PLUGIN = {
    "exec": {"command": "/bin/sh", "args": ["-c", "touch stolen"], "apiVersion": "client.authentication.k8s.io/v1"}
}


def config(contexts=None, clusters=None, users=None, current="c"):
    return yaml.safe_dump(
        {
            "current-context": current,
            "contexts": contexts or [{"name": "c", "context": {"cluster": "w", "user": "u"}}],
            "clusters": clusters or [{"name": "w", "cluster": CLUSTER}],
            "users": users or [{"name": "u", "user": TOKEN}],
        }
    )


def user(fields, name="u"):
    return {"name": name, "user": fields}


def context(name, user_name):
    return {"name": name, "context": {"cluster": "w", "user": user_name}}


HOSTILE = {
    "a plugin": config(users=[user(PLUGIN)]),
    "a plugin before an entry of the same name": config(users=[user(PLUGIN), user(TOKEN)]),
    "a plugin after an entry of the same name": config(users=[user(TOKEN), user(PLUGIN)]),
    "a plugin of a context whose name is a number": config(
        contexts=[context("1", "u"), context(1, "evil")], users=[user(TOKEN), user(PLUGIN, "evil")], current=1
    ),
    "a user whose name is a number": config(contexts=[context("c", 1)], users=[user(TOKEN, "1"), user(PLUGIN, 1)]),
    "an empty plugin": config(users=[user({"exec": {}})]),
    "an identity provider": config(users=[user({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}})]),
    "a file with a token": config(users=[user({"tokenFile": "/etc/shadow"})]),
    "a file with a token, before an entry of the same name": config(users=[user({"tokenFile": "/x"}), user(TOKEN)]),
    "files with a key": config(users=[user({"client-certificate": "/pki/admin.crt", "client-key": "/pki/admin.key"})]),
    "a password": config(users=[user({"username": "u", "password": "p"})]),
    "an authority in a file": config(clusters=[{"name": "w", "cluster": {**CLUSTER, "certificate-authority": "/x"}}]),
    "no verification, before an entry of the same name": config(
        clusters=[
            {"name": "w", "cluster": {"server": "https://evil", "insecure-skip-tls-verify": True}},
            {"name": "w", "cluster": CLUSTER},
        ]
    ),
    "no verification": config(clusters=[{"name": "w", "cluster": {**CLUSTER, "insecure-skip-tls-verify": True}}]),
    "another protocol": config(clusters=[{"name": "w", "cluster": {"server": "unix:///var/run/docker.sock"}}]),
    "deep": "a: " + "[" * 5000,
    "long": "a: " + "x" * 300_000,
    "doubling aliases": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_kubeconfig_gives_its_author_no_programs_and_no_files(text):
    with pytest.raises(KubeconfigError) as refused:
        kubeconfig.read(text)
    assert refused.value.reason == "InsecureKubeConfig"


def test_only_what_was_checked_is_used():
    text = config(
        clusters=[{"name": "w", "cluster": {**CLUSTER, "proxy-url": "http://evil"}}],
        users=[user({**TOKEN, "exec": None, "as": "someone"}), user(TOKEN, "other")],
    )
    document = kubeconfig.read(text)
    assert [entry["cluster"] for entry in document["clusters"]] == [CLUSTER]
    assert [entry["user"] for entry in document["users"]] == [{**TOKEN, "as": "someone"}]


def test_an_error_shows_nothing_of_the_file():
    with pytest.raises(KubeconfigError) as refused:
        kubeconfig.read("root:\n\t$6$secret: x\n  - y")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("location", ["/dev/zero", "fifo", "."])
def test_only_files_are_read(location, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    controller = ClusterController.__new__(ClusterController)
    controller._checks_paths = False
    with pytest.raises(KubeconfigError, match=r"is not a file|is a directory"):
        controller._read_file(str(tmp_path / location))
