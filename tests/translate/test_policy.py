import pytest

from pykueue.engine.policy import QuotaCheckStrategy
from pykueue.translate import policy

IGNORES = {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}


@pytest.mark.parametrize(
    ("gates", "strategy"),
    [({}, QuotaCheckStrategy.IGNORE_UNDECLARED), ({"QuotaCheckStrategy": False}, QuotaCheckStrategy.BLOCK_UNDECLARED)],
)
def test_the_quota_check_strategy_needs_its_gate(gates, strategy):
    assert policy.engine_policy(IGNORES | {"featureGates": gates}).quota_check_strategy is strategy
