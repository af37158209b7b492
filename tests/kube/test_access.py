"""Kubeconfigs of every plain kind, and the files of a pod."""

import base64
import json
import sys

import pytest

from pykueue.kube import access


def kubeconfig(path, user, **cluster):
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [
                    {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
                    {"name": "y", "context": {"cluster": "c"}},
                ],
                "current-context": "x",
            }
        )
    )
    return path


async def test_token(tmp_path):
    cluster_access = await access.from_kubeconfig(kubeconfig(tmp_path / "k", {"token": "secret"}))
    assert (cluster_access.server, cluster_access.namespace, await cluster_access.token()) == (
        "http://127.0.0.1:1",
        "team",
        "secret",
    )


async def test_token_file_beside_the_kubeconfig(tmp_path):
    (tmp_path / "token").write_text("secret\n")
    cluster_access = await access.from_kubeconfig(kubeconfig(tmp_path / "k", {"tokenFile": "token"}))
    assert await cluster_access.token() == "secret"


async def test_a_context_by_name(tmp_path):
    cluster_access = await access.from_kubeconfig(kubeconfig(tmp_path / "k", {"token": "secret"}), "y")
    assert (cluster_access.namespace, await cluster_access.token()) == ("default", "")


async def test_user_name_and_password(tmp_path):
    cluster_access = await access.from_kubeconfig(kubeconfig(tmp_path / "k", {"username": "a", "password": "b"}))
    assert cluster_access.headers["Authorization"] == "Basic " + base64.b64encode(b"a:b").decode()


async def test_a_missing_context_is_named(tmp_path):
    with pytest.raises(access.AccessError, match="has no context named 'z'"):
        await access.from_kubeconfig(kubeconfig(tmp_path / "k", {}), "z")


async def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(access.AccessError, match="cannot read the kubeconfig"):
        await access.from_kubeconfig(tmp_path / "none")


async def test_a_file_that_is_no_kubeconfig(tmp_path):
    (tmp_path / "k").write_text("just text")
    with pytest.raises(access.AccessError, match="is not a kubeconfig"):
        await access.from_kubeconfig(tmp_path / "k")


async def test_kubeconfig_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "k", {"token": "secret"})))
    assert await (await access.find()).token() == "secret"


async def test_exec_plugin(tmp_path):
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    script = tmp_path / "plugin.py"
    script.write_text(f"print({json.dumps(json.dumps(credential))})")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
    cluster_access = await access.from_kubeconfig(kubeconfig(tmp_path / "k", {"exec": plugin}))
    assert (cluster_access.server, await cluster_access.token()) == ("http://127.0.0.1:1", "from-plugin")


def test_outside_of_a_pod(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(access.AccessError, match="not in a pod"):
        access.from_pod(tmp_path)
