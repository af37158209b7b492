"""Random outcomes and crashes between any two writes: every finished pod is counted exactly once."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.cluster.job_controller.shop import Shop


class JobUnderFire(RuleBasedStateMachine):
    @initialize(indexed=st.booleans(), parallelism=st.integers(1, 4), completions=st.integers(1, 6))
    def begin(self, indexed, parallelism, completions):
        mode = "Indexed" if indexed else "NonIndexed"
        self.shop = Shop(parallelism=parallelism, completions=completions, completionMode=mode, backoffLimit=4)
        self.ended = {"succeeded": 0, "failed": 0}

    @property
    def is_over(self):
        return bool(self.shop.condition("Complete") or self.shop.condition("Failed"))

    @rule(crash_after=st.one_of(st.none(), st.integers(0, 8)))
    def sync(self, crash_after):
        if not self.is_over:
            self.shop.sync(crash_after)

    @rule(which=st.integers(0, 3), exit_code=st.sampled_from([0, 0, 1]))
    def end_a_pod(self, which, exit_code):
        if which < len(self.shop.active) and not self.shop.condition("FailureTarget"):
            self.shop.end(exit_code, which)
            self.ended["failed" if exit_code else "succeeded"] += 1

    @rule(seconds=st.sampled_from([5, 60, 700]))
    def pass_time(self, seconds):
        self.shop.later(seconds)

    @invariant()
    def never_more_than_happened(self):
        if not hasattr(self, "shop") or self.shop.condition("FailureTarget"):
            return
        status = self.shop.status
        uncounted = status.get("uncountedTerminatedPods", {})
        for outcome, happened in self.ended.items():
            assert status.get(outcome, 0) <= happened
            assert not set(uncounted.get("succeeded", ())) & set(uncounted.get("failed", ()))

    def teardown(self):
        """Without further faults the job settles, and every count is exact."""
        if not hasattr(self, "shop"):
            return
        for _ in range(200):
            if self.is_over:
                break
            self.shop.later(700).sync()
            while self.shop.active and not self.shop.condition("FailureTarget"):
                self.end_a_pod(0, 0)
        assert self.is_over
        if self.shop.condition("Complete"):
            assert self.shop.status.get("failed", 0) == self.ended["failed"]
            if self.shop.job["spec"]["completionMode"] == "NonIndexed":
                assert self.shop.status["succeeded"] == self.ended["succeeded"]
            else:
                assert self.shop.status["succeeded"] == self.shop.job["spec"]["completions"]
        assert not any(self.shop.status["uncountedTerminatedPods"].values())


JobUnderFire.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestJobUnderFire = JobUnderFire.TestCase
