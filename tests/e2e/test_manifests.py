"""Published manifests, with all their peculiarities, apply unchanged."""

from pathlib import Path

import pytest
from tests.e2e.external_cluster import embedded

MANIFESTS = Path(__file__).parent / "manifests"


@pytest.mark.parametrize("name", ["team-preemption", "single-gpu-queue", "ray-and-pytorch"])
def test_a_manifest_applies_again_and_again(kubectl, name):
    """Quantities written as numbers are stored as text: always in Jobs, at first in queues."""
    path = str(MANIFESTS / f"{name}.yaml")
    bare = kubectl.everywhere()
    for _ in range(2):
        bare("apply", "-f", path)
    third = bare("apply", "-f", path).splitlines()
    assert [line for line in third if not line.endswith(" unchanged") and "job.batch/" not in line] == []


def test_a_generated_name_may_be_created_twice(kubectl):
    bare = kubectl.everywhere()
    created = [bare("create", "-f", str(MANIFESTS / "generated-ray-job.yaml")) for _ in range(2)]
    assert created[0] != created[1]
    assert all(line.startswith("rayjob.ray.io/dev-pytorch-text-classifier-") for line in created)


@embedded("a policy that changes an object cannot warn")
def test_loose_readings_are_told(kubectl):
    done = kubectl.everywhere().run("apply", "-f", str(MANIFESTS / "gpu-flavor-with-node-selector.yaml"))
    assert "spec.nodeSelector: read as spec.nodeLabels" in done.stderr


def test_both_versions_of_a_queue_show_the_same_cohort(kubectl):
    bare = kubectl.everywhere()
    bare("apply", "-f", str(MANIFESTS / "team-preemption.yaml"))
    old = bare("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "shared-cq", "-o", "jsonpath={.spec.cohort}")
    new = bare("get", "clusterqueues.v1beta2.kueue.x-k8s.io", "shared-cq", "-o", "jsonpath={.spec.cohortName}")
    assert (old, new) == ("team-ab", "team-ab")
