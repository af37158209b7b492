"""`pykueue controller --webhooks` outside a cluster, from the manifests to a trusted answer."""

import base64
import json
import ssl
import urllib.request

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.controller_process import free_port, start_controller, wait_for
from tests.e2e.external_cluster import embedded
from tests.real_cluster.test_controller import doctor

from pykueue.cli.main import cli


@pytest.fixture
def url(cluster):
    """The address of webhooks that are configured and served."""
    address = f"127.0.0.1:{free_port()}"
    printed = CliRunner().invoke(cli, ["manifests", "webhooks", "--webhook-url", f"https://{address}"])
    cluster.kubectl.apply(*yaml.load_all(printed.stdout, Loader=yaml.CSafeLoader))
    cluster.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    controller = start_controller(cluster.kubeconfig, cluster.directory, {}, "--webhooks", address)
    cluster.controllers.append(controller)
    wait_for(lambda: controller.page("readyz") == "ok", "the webhooks are served")
    return f"https://{address}"


def bundle(cluster):
    configuration = cluster.kubectl.json("get", "mutatingwebhookconfiguration", "pykueue-webhooks")
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"].get("caBundle", ""))


@embedded("it calls no webhooks, so the test does")
def test_what_manifests_print_is_answered_and_trusted(cluster, url):
    trust = wait_for(lambda: bundle(cluster), "the certificate is made known").decode()
    request = {
        "uid": "u",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "operation": "CREATE",
        "object": cluster.job("one"),
    }
    review = urllib.request.Request(f"{url}/mutate", data=json.dumps({"request": request}).encode())
    with urllib.request.urlopen(review, context=ssl.create_default_context(cadata=trust), timeout=10) as answer:
        patch = json.loads(base64.b64decode(json.load(answer)["response"]["patch"]))
    assert {"op": "add", "path": "/spec/suspend", "value": True} in patch
    assert "ok   certificate  trusted, good for 365 days" in doctor(cluster)
