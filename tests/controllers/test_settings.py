import pytest

from pykueue.api import feature_gates
from pykueue.api.rules.jobs import job_kinds
from pykueue.controllers import settings


@pytest.mark.parametrize("name", sorted(job_kinds.JOB_KINDS))
def test_every_kind_that_can_be_held_back_has_a_controller(name):
    configuration = {"integrations": {"frameworks": [name]}}
    assert settings.frameworks(configuration) or settings.manages_pods(configuration)


@pytest.mark.parametrize(
    ("gate", "field", "default"),
    [
        ("AssignQueueLabelsForPods", "labels_queues", True),
        ("FastQuotaReleaseInPodIntegration", "deleted_pods_use_quota", True),
    ],
)
def test_gates_change_the_policy_of_jobs(gate, field, default):
    assert getattr(settings.job_policy({}), field) is default
    is_on = feature_gates.GATES[gate].is_on
    assert getattr(settings.job_policy({"featureGates": {gate: not is_on}}), field) is not default
