"""The kubelet rejects a pod that its node cannot take, with a kubelet's reasons."""

import pytest

from pykueue.cluster.kubelet import admission

NODE = {
    "metadata": {"name": "gold", "labels": {"tier": "gold"}},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2", "nvidia.com/gpu": "1"}},
}
EVICTING = NODE | {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}


def pod(cpu="1", **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]} | spec,
    }


def affinity(name):
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("new_pod", "node", "others", "reason"),
    [
        (pod(nodeSelector={"tier": "cheap"}), NODE, [], "NodeAffinity"),
        (pod(affinity=affinity("other")), NODE, [], "NodeAffinity"),
        (pod(), EVICTING, [], "TaintToleration"),
        (pod("4"), NODE, [], "OutOfcpu"),
        (pod("1"), NODE, [pod("1500m")], "OutOfcpu"),
        (pod("0"), NODE, [pod("0"), pod("0")], "OutOfpods"),
        (pod("1", overhead={"cpu": "1500m"}), NODE, [], "OutOfcpu"),
        (pod("4", overhead={"cpu": "-3"}), NODE, [], "OutOfcpu"),
        (pod("4", resources={"requests": {"cpu": "10m"}}), NODE, [], "OutOfcpu"),
    ],
)
def test_a_pod_is_rejected(new_pod, node, others, reason):
    rejection = admission.rejection(new_pod, node, others)
    assert rejection is not None
    assert rejection[0] == reason
    assert rejection[1].startswith("Pod was rejected: ")


@pytest.mark.parametrize(
    ("new_pod", "node"),
    [
        (pod("2"), NODE),
        (pod(nodeSelector={"tier": "gold"}, affinity=affinity("gold")), NODE),
        (pod(tolerations=[{"operator": "Exists"}]), EVICTING),
    ],
)
def test_a_pod_that_fits_is_accepted(new_pod, node):
    assert admission.rejection(new_pod, node, []) is None
