import pytest

from pykueue.api.rules.jobs import job_kinds
from pykueue.controllers import settings


@pytest.mark.parametrize("name", sorted(job_kinds.JOB_KINDS))
def test_every_kind_that_can_be_held_back_has_a_controller(name):
    configuration = {"integrations": {"frameworks": [name]}}
    assert settings.frameworks(configuration) or settings.manages_pods(configuration)
