"""A cluster's policies warn of what the rules of the embedded API warn of."""

import pytest
from tests.cli import malformed
from tests.install import policy_verdicts
from tests.install.job_objects import JOBS, MANAGED, changed, marked
from tests.install.test_suspension import owned

from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest

PARENT = {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
POD = marked(JOBS["Pod"], {MANAGED: "true"})
SUB_GROUPS = ("spec", "podSets", 0, "topologyRequest", "subGroupCount")
WRITES = {
    "workload": (malformed.WORKLOAD, None),
    "negative": (changed(malformed.WORKLOAD, SUB_GROUPS, -1), None),
    "pod": (POD, None),
    "owned pod": (owned(POD, "batch/v1", "Job"), None),
    "pod of a stranger": (owned(POD, "batch/v1", "CronJob"), None),
    "new pod of a parent": (owned(marked(POD, None, PARENT), "batch/v1", "Job"), None),
    "old pod of a parent": (owned(marked(POD, None, PARENT), "batch/v1", "Job"), POD),
}


@pytest.mark.parametrize("name", WRITES)
def test_both_warn_or_neither(name):
    obj, old = WRITES[name]
    request = AdmissionRequest(
        operation="CREATE" if old is None else "UPDATE", object=obj, old=old, lookup=policy_verdicts.Cluster(), settings=policy_verdicts.settings()
    )  # fmt: skip
    warnings = table.webhook_of(*policy_verdicts.group_and_kind(obj)).validator(request).warnings
    policy = next(
        candidate
        for candidate in policy_verdicts.policies()
        if candidate["metadata"]["name"] == f"warn-of-{obj['kind'].lower()}s.pykueue.dev"
    )
    values = {"object": obj, "oldObject": old}
    is_about = all(
        policy_verdicts.evaluate(condition["expression"], values)
        for condition in policy["spec"].get("matchConditions", ())
    )
    (rule,) = policy["spec"]["validations"]
    assert (is_about and not policy_verdicts.evaluate(rule["expression"], values)) == bool(warnings)
