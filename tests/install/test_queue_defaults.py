"""The policies set the same defaults in queues, flavors and Workloads as the embedded API."""

import copy

import pytest
from tests.cli import malformed
from tests.install import policy_mutations, policy_verdicts
from tests.install.job_objects import changed

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
    of, obj = policy_verdicts.settings(gate), copy.deepcopy(CREATED[name])
    by_policies = policy_mutations.applied(queue_defaults.policies(of), obj)
    rules = table.rules_of(*policy_verdicts.group_and_kind(obj))
    rules.defaulter(AdmissionRequest(operation="CREATE", object=obj, lookup=policy_verdicts.Cluster(), settings=of))
    assert by_policies == obj
