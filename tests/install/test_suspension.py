"""The policies in a cluster and the rules of the embedded API decide alike which jobs are created suspended."""

import itertools

import pytest

from pykueue.api import cel_library, registry
from pykueue.api.scheme import Request, Settings
from pykueue.install import suspension

SETTINGS = Settings(frameworks=frozenset({"batch/job", "ray.io/rayjob", "ray.io/raycluster"}))
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
SYSTEM = registry.scheme()


class Cluster:
    """Holds the parents of jobs, all of which have a queue, and perhaps a queue `default`."""

    def __init__(self, *, has_default_queue):
        self.has_default_queue = has_default_queue

    def get(self, resource, namespace, name):
        if resource.kind == "LocalQueue":
            return {"metadata": {"name": name}} if self.has_default_queue else None
        if resource.kind in ("RayJob", "Namespace"):
            return {"metadata": {"name": name, "uid": "u", "labels": {QUEUE_NAME: "q"}}}
        return None

    def list(self, resource, namespace=""):
        return []


def owner(api_version, kind):
    return [{"apiVersion": api_version, "kind": kind, "name": "parent", "uid": "u", "controller": True}]


LABELS = (None, {}, {"a": "b"}, {QUEUE_NAME: ""}, {QUEUE_NAME: "q"})
OWNERS = (None, owner("ray.io/v1", "RayJob"), owner("batch/v1", "CronJob"), owner("v1", "ReplicationController"))
CASES = list(itertools.product(LABELS, OWNERS, (True, False)))


def job(labels, owners):
    metadata = {"name": "j", "namespace": "n"}
    metadata |= {} if labels is None else {"labels": dict(labels)}
    metadata |= {} if owners is None else {"ownerReferences": owners}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {}}}}


def by_policies(obj, *, has_default_queue):
    """The queue and suspension that the policies of a cluster give."""
    queue, is_suspended = (obj["metadata"].get("labels") or {}).get(QUEUE_NAME, ""), False
    for policy in suspension.policies(SETTINGS):
        if policy["kind"] != "MutatingAdmissionPolicy" or "batch-job" not in policy["metadata"]["name"]:
            continue
        conditions = [each["expression"] for each in policy["spec"]["matchConditions"]]
        holds = all(
            cel_library.evaluate_with(cel_library.compile_expression(text), {"object": obj}) for text in conditions
        )
        if holds and ("paramKind" not in policy["spec"] or has_default_queue):
            is_suspended = True
            queue = queue or "default"
    return queue, is_suspended


def by_rules(obj, *, has_default_queue):
    kind = SYSTEM.for_object(obj)
    lookup = Cluster(has_default_queue=has_default_queue)
    kind.defaulter(Request(operation="CREATE", object=obj, lookup=lookup, settings=SETTINGS))
    return (obj["metadata"].get("labels") or {}).get(QUEUE_NAME, ""), bool(obj["spec"].get("suspend"))


@pytest.mark.parametrize(("labels", "owners", "has_default_queue"), CASES)
def test_policies_suspend_what_the_rules_suspend(labels, owners, has_default_queue):
    expected = by_rules(job(labels, owners), has_default_queue=has_default_queue)
    assert by_policies(job(labels, owners), has_default_queue=has_default_queue) == expected


def test_only_what_depends_on_other_objects_may_fail_quietly():
    policies = [each for each in suspension.policies(SETTINGS) if each["kind"] == "MutatingAdmissionPolicy"]
    quiet = [each["spec"]["failurePolicy"] == "Ignore" for each in policies]
    assert quiet == ["paramKind" in each["spec"] for each in policies]


def test_a_suspend_field_deep_in_the_object_is_set_by_its_path():
    settings = Settings(frameworks=frozenset({"ray.io/rayservice"}))
    mutation = suspension.policies(settings)[0]["spec"]["mutations"][0]
    text = "Object{spec: Object.spec{rayClusterConfig: Object.spec.rayClusterConfig{suspend: true}}}"
    assert mutation["applyConfiguration"]["expression"] == text
