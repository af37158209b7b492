"""Terminating pods on unreachable nodes are deleted by force, if they allow it."""

import pytest

from pykueue.api import conditions
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.failure_recovery import decide

NOW_NS = 1_800_000_000 * SECOND_NS
LOST = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "node.kubernetes.io/unreachable"}]}}
HEALTHY = {"metadata": {"name": "n"}, "spec": {}}


def pod(*, seconds_ago=61, annotation="true", phase="Running"):
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    metadata["annotations"] = {"kueue.x-k8s.io/safe-to-forcefully-delete": annotation}
    if seconds_ago is not None:
        metadata["deletionTimestamp"] = from_ns(NOW_NS - seconds_ago * SECOND_NS)
        metadata["deletionGracePeriodSeconds"] = 30
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


def test_a_pod_on_an_unreachable_node_fails_and_is_deleted():
    update, event, delete = decide.plan(pod(), LOST, NOW_NS).actions
    assert update.new["status"]["phase"] == "Failed"
    condition = conditions.find(update.new, "KueueFailureRecovery")
    assert (condition["status"], condition["reason"]) == ("True", "KueueForcefullyDeleted")
    assert event.type == "Warning"
    assert (
        event.message
        == condition["message"]
        == (
            "Pod forcefully terminated after 1m30s grace period due to unreachable node `n`"
            " (triggered by `kueue.x-k8s.io/safe-to-forcefully-delete` annotation)"
        )
    )
    assert delete.grace_period_seconds == 0


def test_a_pod_that_succeeded_stays_so():
    update, *_ = decide.plan(pod(phase="Succeeded"), LOST, NOW_NS).actions
    assert update.new["status"]["phase"] == "Succeeded"


def test_the_pod_has_a_minute_more_than_its_grace_period():
    plan = decide.plan(pod(seconds_ago=20), LOST, NOW_NS)
    assert (plan.actions, plan.requeue_after_ns) == ((), 40 * SECOND_NS)


@pytest.mark.parametrize(
    ("obj", "node"),
    [
        (pod(), HEALTHY),
        (pod(), None),
        (pod(annotation="yes"), LOST),
        (pod(seconds_ago=None), LOST),
    ],
)
def test_other_pods_are_left_alone(obj, node):
    plan = decide.plan(obj, node, NOW_NS)
    assert (plan.actions, plan.requeue_after_ns) == ((), 0)
