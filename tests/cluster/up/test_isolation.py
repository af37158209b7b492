"""`pykueue up` as root: whose rights the jobs of its users have."""

import os

import pytest
from tests.cluster.up import api_calls
from tests.cluster.up.conftest import QUEUE

from pykueue.api import objects, resources
from pykueue.cluster.runtimes import isolation
from pykueue.cluster.runtimes.unix_users import FIRST_UID

OBSTACLE = isolation.determine(is_enabled=True, first_uid=FIRST_UID).obstacle
as_root = pytest.mark.skipif(bool(OBSTACLE), reason=f"isolation is not possible here: {OBSTACLE}")
WHOEVER = "whoever may submit a job is"

LOCAL_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jane, namespace: ml}
spec: {clusterQueue: shared}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: local
    command: [sleep, "1000"]
    securityContext: FIELDS
"""


def add_jane(cluster):
    kubeconfig = cluster.directory / "jane.kubeconfig"
    words = ("user", "add", "jane", "--namespace", "ml", "--kubeconfig", str(kubeconfig))
    return kubeconfig, cluster.run(*words, "--data-dir", str(cluster.directory))


@as_root
def test_the_jobs_of_users_are_isolated(cluster, tmp_path, tmp_path_factory):
    api_calls.create(cluster.directory / "kubeconfig", QUEUE)
    kubeconfig, text = add_jane(cluster)
    assert f"run as Unix users of their own (from {FIRST_UID})" in text
    api_calls.create(cluster.directory / "kubeconfig", LOCAL_QUEUE)
    secret = tmp_path / "secret"
    secret.write_text("of the administrator")
    script = f"id -u; cat {cluster.directory}/tokens.csv {secret} /proc/{cluster.process.pid}/environ; echo end"
    submit = ("submit", "-f", "--cpu", "100m", "--queue")
    output = cluster.run(*submit, "jane", "--directory", "/", "--kubeconfig", str(kubeconfig), "--", "sh", "-c", script)
    assert str(FIRST_UID) in output.split()
    assert "end" in output.split()
    assert "administrator" not in output
    assert "KUBECONFIG" not in output
    output = cluster.run(*submit, "user-queue", "--", "sh", "-c", f"id -u; pwd; cat {secret}")
    assert f"\n0\n{cluster.directory}\nof the administrator" in output
    jane = ("--kubeconfig", str(kubeconfig))
    directory = str(tmp_path_factory.mktemp("elsewhere"))
    cluster.run("submit", "--name", "lost", "--cpu", "100m", "--queue", "jane", "--directory", directory, *jane, "true")
    cluster.run("wait", "lost", *jane, code=1)
    assert "the container has a /tmp of its own, so name a workingDir outside /tmp" in cluster.run(
        "explain", "job", "lost", *jane
    )
    assert "run as Unix users of their own" in cluster.stop()


def test_a_security_context_that_cannot_be_kept_is_refused(cluster):
    field, value = ("runAsNonRoot", "true") if os.geteuid() == 0 else ("runAsUser", os.geteuid() + 1)
    manifest = POD.replace("NAME", "refused").replace("FIELDS", f"{{{field}: {value}}}")
    api_calls.create(cluster.directory / "kubeconfig", manifest)

    def is_waiting(pod):
        statuses = objects.nested_list(pod, "status", "containerStatuses")
        return statuses and objects.nested(statuses[0], "state", "waiting").get("message")

    pod = api_calls.wait_until(cluster.directory / "kubeconfig", resources.POD, "refused", is_waiting)
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith(f"securityContext.{field}: {value}: ")


def test_without_isolation_it_is_said_who_submits(tmp_path):
    from tests.cluster.up.conftest import Cluster

    cluster = Cluster(tmp_path / "data").start("--no-isolation")
    _, text = add_jane(cluster)
    assert WHOEVER in text
    assert WHOEVER in cluster.stop()
