"""A client that writes what has no effect is warned."""

import pytest
import yaml
from tests.install import policy_verdicts

from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest

QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {}}
CONCURRENT = {**QUEUE, "spec": {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}}}


def configuration(**fields):
    text = yaml.safe_dump({"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **fields})
    data = {"controller_manager_config.yaml": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"}, "data": data}


def warnings(obj, old=None):
    request = AdmissionRequest(
        operation="UPDATE" if old else "CREATE",
        object=obj,
        old=old,
        lookup=policy_verdicts.Cluster(),
        settings=policy_verdicts.settings(),
    )
    return table.rules_of(*policy_verdicts.group_and_kind(obj)).validator(request).warnings


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (CONCURRENT, "spec.concurrentAdmissionPolicy has no effect"),
        (configuration(tls={"curvePreferences": [29, 23]}), "tls.curvePreferences: acts in part"),
        (configuration(webhok={}), 'the Configuration is not used: webhok: Invalid value: unknown field "webhok"'),
    ],
)
def test_a_write_without_effect_is_answered_with_a_warning(obj, word):
    (warning,) = warnings(obj)
    assert word in warning


@pytest.mark.parametrize("obj", [QUEUE, configuration(namespace="x"), {"kind": "ConfigMap", "apiVersion": "v1"}])
def test_other_objects_get_no_warning(obj):
    assert warnings(obj) == ()


def test_an_object_is_warned_of_once():
    assert warnings(CONCURRENT, CONCURRENT) == ()


@pytest.mark.parametrize(
    "obj",
    [QUEUE, CONCURRENT],
    ids=["plain", "concurrent"],
)
def test_the_policies_of_a_cluster_warn_of_the_same(obj):
    plural = f"{obj['kind'].lower()}s"
    policy = next(
        policy for policy in policy_verdicts.policies() if policy["metadata"]["name"] == f"warn-of-{plural}.pykueue.dev"
    )
    (rule,) = policy["spec"]["validations"]
    allowed = policy_verdicts.evaluate(rule["expression"], {"object": obj, "oldObject": None})
    assert (() if allowed else (rule["message"],)) == warnings(obj)
