"""Where kubeconfigs of workers may come from."""

import pytest

from pykueue.controllers.multikueue import kubeconfig
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
