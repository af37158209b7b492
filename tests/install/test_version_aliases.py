"""Older spellings are read alike by the policies of a cluster and by a webhook."""

import copy
import itertools

import pytest
from tests.install import policy_mutations

from pykueue.install import version_aliases

POLICIES = version_aliases.policies()
FLAVORS = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
SPECS = {
    "ClusterQueue": [
        {}, {"cohort": "a"}, {"cohort": "b"}, {"cohortName": "a"}, {"cohort": "a", "cohortName": "a"},
        {"cohort": "a", "cohortName": "b"}, {"cohort": "b", "cohortName": "a"}, {"admissionChecks": ["c"]},
        {"admissionChecks": ["c"], "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}},
        {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
        {"resourceGroups": [{"flavors": FLAVORS}, {"coveredResources": ["gpu"], "flavors": FLAVORS}]},
    ],
    "ResourceFlavor": [{}, {"nodeSelector": {"a": "b"}}, {"nodeLabels": {"a": "c"}}, {"nodeSelector": {"a": "b"}, "nodeLabels": {"a": "b"}}],
    "Cohort": [{}, {"resourceGroups": [{"flavors": FLAVORS}]}],
}  # fmt: skip


def obj_of(kind, spec, version):
    """An object without a specification has none at all."""
    obj = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}}
    return obj | ({"spec": copy.deepcopy(spec)} if spec else {})


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("kind", SPECS)
def test_a_webhook_reads_what_the_policies_read(kind, version):
    for old, new in itertools.product([None, *SPECS[kind]], SPECS[kind]):
        before, after = None if old is None else obj_of(kind, old, version), obj_of(kind, new, version)
        by_policies = policy_mutations.applied(POLICIES, after, before)
        version_aliases.apply(after, before, version)
        assert after == by_policies
