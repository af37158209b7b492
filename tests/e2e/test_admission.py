"""The errors and warnings that kubectl prints for objects that break a rule."""

import json

from tests.e2e.external_cluster import embedded

SEED_FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ResourceFlavor",
    "metadata": {"name": "seed-flavor"},
    "spec": {"nodeSelector": {"pool": "gpu"}},
}
SEED_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "seed-queue"},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 40}]}]}],
    },
}
DEPRECATED = "Warning: This version is deprecated. Use v1beta2 instead."


def job(**annotations):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "admitted", "labels": labels, "annotations": annotations},
        "spec": {"template": {"spec": pod}},
    }


def test_node_selector_of_a_flavor_is_stored_as_node_labels(kubectl):
    kubectl("create", "-f", "-", stdin=json.dumps(SEED_FLAVOR))
    stored = kubectl.json("get", "resourceflavor", "seed-flavor")
    assert stored["spec"]["nodeLabels"] == {"pool": "gpu"}


def test_covered_resources_are_stored(kubectl):
    kubectl("create", "-f", "-", stdin=json.dumps(SEED_QUEUE))
    stored = kubectl.json("get", "clusterqueue", "seed-queue")
    assert stored["spec"]["resourceGroups"][0]["coveredResources"] == ["cpu"]


@embedded("a policy that changes an object cannot warn")
def test_loose_readings_are_warned_of(kubectl):
    flavor = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(_named(SEED_FLAVOR, "loose")))
    assert "Warning: spec.nodeSelector: read as spec.nodeLabels; write nodeLabels instead" in flavor.stderr
    queue = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(_named(SEED_QUEUE, "loose")))
    assert "coveredResources: missing, taken from the flavors' resources: cpu" in queue.stderr


def _named(obj, name):
    return obj | {"metadata": {"name": name}}


def test_labelled_job_is_suspended(kubectl):
    kubectl.run("create", "-f", "-", stdin=json.dumps(job()))
    assert kubectl("get", "job", "admitted", "-o", "jsonpath={.spec.suspend}") == "true"


@embedded("a cluster without webhooks refuses by policy")
def test_refusal_names_the_webhook(kubectl):
    refused = job(**{"kueue.x-k8s.io/job-min-parallelism": "few"})
    done = kubectl.run("create", "-f", "-", stdin=json.dumps(refused))
    assert 'admission webhook "vjob.kb.io" denied the request: ' in done.stderr
    assert 'strconv.Atoi: parsing "few": invalid syntax' in done.stderr


def test_refused_use_of_a_deprecated_version_is_warned_of(kubectl):
    bad = {**SEED_QUEUE, "metadata": {"name": "bad"}, "spec": {**SEED_QUEUE["spec"], "queueingStrategy": "LIFO"}}
    done = kubectl.run("create", "-f", "-", stdin=json.dumps(bad))
    assert "Unsupported value" in done.stderr
    assert DEPRECATED in done.stderr


def test_reading_a_deprecated_version_is_warned_of(kubectl):
    done = kubectl.run("get", "clusterqueues.v1beta1.kueue.x-k8s.io")
    assert DEPRECATED in done.stderr
