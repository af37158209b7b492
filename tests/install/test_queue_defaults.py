"""The policies of a cluster fill in of queues, flavors and Workloads what the rules of the embedded API fill in."""

import copy

import pytest
from tests.cli import malformed
from tests.install import mutations, verdicts
from tests.install.jobs import changed

from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest
from pykueue.install.mutations import queue_defaults

CREATED = {
    "queue": malformed.QUEUE,
    "flavor": malformed.FLAVOR,
    "kept flavor": changed(malformed.FLAVOR, ("metadata", "finalizers"), ["mine", "kueue.x-k8s.io/resource-in-use"]),
    "workload": malformed.WORKLOAD,
    "partial workload": changed(malformed.WORKLOAD, ("spec", "podSets", 0, "minCount"), 1),
}


@pytest.mark.parametrize("name", CREATED)
@pytest.mark.parametrize("gate", ["PartialAdmission", "-PartialAdmission"])
def test_policies_fill_in_what_the_rules_fill_in(name, gate):
    of, obj = verdicts.settings(gate), copy.deepcopy(CREATED[name])
    made = mutations.applied(queue_defaults.policies(of), obj)
    rules = table.rules_of(*verdicts.group_and_kind(obj))
    rules.defaulter(AdmissionRequest(operation="CREATE", object=obj, lookup=verdicts.Cluster(), settings=of))
    assert made == obj
