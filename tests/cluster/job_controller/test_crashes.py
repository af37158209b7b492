"""Random outcomes, and crashes between any two writes: every finished pod is counted once."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.cluster.job_controller.job_fixture import JobFixture


class JobWithCrashes(RuleBasedStateMachine):
    @initialize(indexed=st.booleans(), parallelism=st.integers(1, 4), completions=st.integers(1, 6))
    def begin(self, indexed, parallelism, completions):
        mode = "Indexed" if indexed else "NonIndexed"
        self.fixture = JobFixture(parallelism=parallelism, completions=completions, completionMode=mode, backoffLimit=4)
        self.ended = {"succeeded": 0, "failed": 0}

    @property
    def is_over(self):
        return bool(self.fixture.condition("Complete") or self.fixture.condition("Failed"))

    @rule(crash_after=st.one_of(st.none(), st.integers(0, 8)))
    def sync(self, crash_after):
        if not self.is_over:
            self.fixture.sync(crash_after)

    @rule(which=st.integers(0, 3), exit_code=st.sampled_from([0, 0, 1]))
    def end_a_pod(self, which, exit_code):
        if which < len(self.fixture.active) and not self.fixture.condition("FailureTarget"):
            self.fixture.end(exit_code, which)
            self.ended["failed" if exit_code else "succeeded"] += 1

    @rule(seconds=st.sampled_from([5, 60, 700]))
    def pass_time(self, seconds):
        self.fixture.later(seconds)

    @invariant()
    def never_more_than_happened(self):
        if not hasattr(self, "fixture") or self.fixture.condition("FailureTarget"):
            return
        status = self.fixture.status
        uncounted = status.get("uncountedTerminatedPods", {})
        for outcome, happened in self.ended.items():
            assert status.get(outcome, 0) <= happened
            assert not set(uncounted.get("succeeded", ())) & set(uncounted.get("failed", ()))

    def teardown(self):
        """Without further faults the job settles, and every count is exact."""
        if not hasattr(self, "fixture"):
            return
        for _ in range(200):
            if self.is_over:
                break
            self.fixture.later(700).sync()
            while self.fixture.active and not self.fixture.condition("FailureTarget"):
                self.end_a_pod(0, 0)
        assert self.is_over
        if self.fixture.condition("Complete"):
            assert self.fixture.status.get("failed", 0) == self.ended["failed"]
            if self.fixture.job["spec"]["completionMode"] == "NonIndexed":
                assert self.fixture.status["succeeded"] == self.ended["succeeded"]
            else:
                assert self.fixture.status["succeeded"] == self.fixture.job["spec"]["completions"]
        assert not any(self.fixture.status["uncountedTerminatedPods"].values())


JobWithCrashes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestJobWithCrashes = JobWithCrashes.TestCase
