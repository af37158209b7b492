"""Runs a system with a random user for a number of steps: episodes of faults and restarts, each
followed by rest.

`tests/simulation` runs short and long campaigns; a failure is a `ViolationError` whose text has
the seed and the end of the trace.
"""

import asyncio
import gc
import logging
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pykueue.api import entropy
from pykueue.api.times import SECOND_NS
from pykueue.engine.invariants import InvariantError
from pykueue.simulate import invariants
from pykueue.simulate import profile as profiles
from pykueue.simulate.faults import FaultRates
from pykueue.simulate.profile import Profile
from pykueue.simulate.system import System
from pykueue.simulate.workload_generator import RandomUser

REST_SECONDS = 130
"""Longer than any pause between two attempts at the same thing."""
LONGEST_UNREST_SECONDS = 3 * 3600
CHECK_STEPS = 500
"""Between two looks at what is not checked with every change."""
LINES_SHOWN = 60
MOST_VIOLATIONS = 10
VIOLATION_LENGTH = 600
_COLLECT_STEPS = 50_000
_UID_BITS = 128
_COUNT_SHIFT = 96


class ViolationError(AssertionError):
    """An invariant does not hold."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did."""

    seed: int
    profile: Profile
    steps: int
    virtual_seconds: float
    counts: dict[str, int]
    digest: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        duration = f"{self.steps} steps, {self.virtual_seconds:.0f} virtual seconds"
        return f"seed {self.seed} ({self.profile}): {duration}; {counts}"


class Campaign:
    """One run of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        profile: Profile = profiles.PLAIN,
        rates: FaultRates | None = None,
        keeps_trace: bool = False,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pykueue-simulation-")
        self.system = System(seed, Path(self._directory.name), profile=profile, rates=rates, keeps_trace=keeps_trace)
        self._random = self.system.stream("campaign")
        self._user = RandomUser(self.system)
        self._breaking: asyncio.Task[None] | None = None
        self._steps = 0

    def run(self, story: Callable[["Campaign"], Awaitable[None]]) -> Report:
        system = self.system
        self._next_check = CHECK_STEPS
        system.loop.after_step = self._after_step
        with entropy.drawn_from(_GrowingUids(f"{system.seed} entropy")), _quiet(system), _own_collector():
            try:
                system.loop.run_until_complete(_awaited(story(self)))
                self._fail_if_violated()
                return self._report()
            except InvariantError as error:
                raise ViolationError(self._failure([str(error)])) from error
            finally:
                system.loop.close()
                self._directory.cleanup()

    # Stories

    async def episodes(self, steps: int) -> None:
        """Random episodes until so many steps are done; then everything is deleted and nothing
        may be left.
        """
        self._steps = steps
        await self.system.start()
        await self._user.set_up()
        await self.rest()
        while self.system.loop.steps < steps:
            await self._episode()
            await self.rest()
            await self.check_rest()
            await self._check_fresh_start()
        await self._end()

    async def _episode(self) -> None:
        draw = self._random
        self.system.faults.is_calm = draw.random() < 0.1
        self.system.trace.add("episode")
        for _ in range(draw.randint(5, 40)):
            await self._user.act()
            if draw.random() < 0.08:
                await self._disturb()
            await asyncio.sleep(draw.choice((0, 0.01, 0.1, 1, 5)) * draw.random())

    async def _disturb(self) -> None:
        system, pause = self.system, self._random.choice((0.0, 0.1, 3.0, 20.0))
        disturbance = self._random.randrange(5 if system.profile.checks else 4)
        if disturbance == 4:
            await system.restart(system.check_controller, pause)
        elif disturbance == 0:
            await system.restart_api_server(pause)
        elif disturbance == 1:
            await system.restart(system.cluster, pause)
        elif self._random.random() < 0.5:
            await system.restart_politely(system.replicas[disturbance - 2], pause)
        else:
            await system.restart(system.replicas[disturbance - 2], pause)

    async def _end(self) -> None:
        user = self._user
        await user.administrator.restore()
        for _ in range(2):  # a deletion may bring up another job
            await user.delete_all_jobs()
            await asyncio.sleep(1)
            await self.rest()
            await user.delete_pod_groups()
            await asyncio.sleep(1)
            await self.rest()
        await self.check_rest()
        for title in invariants.leftovers(self.system):
            self.system.monitor.report(f"{title} is left after everything was deleted")

    # Rest

    async def rest(self, seconds: float = REST_SECONDS) -> None:
        """Stop all faults, and wait until nothing has been written for a while."""
        system = self.system
        system.faults.is_calm = True
        begun_ns = system.clock.now_ns()
        system.monitor.last_changes.clear()
        while system.clock.now_ns() - system.monitor.last_change_ns < seconds * SECOND_NS or not system.leading:
            await asyncio.sleep(1)
            if system.clock.now_ns() - begun_ns > LONGEST_UNREST_SECONDS * SECOND_NS:
                system.monitor.report(f"no rest: {system.monitor.last_changes.most_common(5)} were written on and on")
                self._fail_if_violated()

    async def check_rest(self) -> None:
        for fault in await invariants.faults_at_rest(self.system):
            self.system.monitor.report(f"at rest: {fault}")
        self._fail_if_violated()

    async def _check_fresh_start(self) -> None:
        """A restart of everything at rest changes no object."""
        before, may_differ = invariants.state(self.system), invariants.may_differ_after_restart(self.system)
        outdated, nodes = invariants.outdated(self.system), invariants.nodes(self.system)
        await self.system.restart_api_server(1)
        for replica in self.system.replicas:
            await self.system.restart(replica, 1)
        self.system.monitor.engine_restarted()
        await asyncio.sleep(1)
        await self.rest()
        has_new_nodes = nodes != invariants.nodes(self.system)  # a new cluster has all nodes
        if may_differ or has_new_nodes:
            return
        for difference in invariants.differences(before, invariants.state(self.system), outdated):
            self.system.monitor.report(f"a fresh start changed {difference}")
        self._fail_if_violated()

    # Judging

    def _after_step(self) -> None:
        system = self.system
        if system.monitor.violations or system.loop.errors:
            self._fail_if_violated()
        if system.monitor.preemption_cycles and (self._breaking is None or self._breaking.done()):
            self._breaking = system.loop.create_task(self._break_preemption_cycles())
        if system.loop.steps >= self._next_check:
            self._next_check = system.loop.steps + CHECK_STEPS
            system.monitor.check_owners()
            for controllers in system.leading.values():
                invariants.check_engine(system, controllers.scheduler.engine)
            if system.loop.steps % _COLLECT_STEPS < CHECK_STEPS:
                gc.collect()

    async def _break_preemption_cycles(self) -> None:
        """As in Kueue, workloads may preempt each other for ever; the user ends it."""
        cycles, self.system.monitor.preemption_cycles = self.system.monitor.preemption_cycles, {}
        for key in cycles:
            self.system.trace.add("preemption cycle", str(key))
            await self._user.deactivate(key.namespace, key.name)

    def _fail_if_violated(self) -> None:
        violations = [*self.system.monitor.violations, *(repr(error) for error in self.system.loop.errors)]
        if violations:
            raise ViolationError(self._failure(violations))

    def _failure(self, violations: list[str]) -> str:
        last = list(self.system.trace.lines)[-LINES_SHOWN:]
        listed = [violation[:VIOLATION_LENGTH] for violation in violations[:MOST_VIOLATIONS]]
        variables = f"PYKUEUE_SIMULATION_SEED={self.system.seed} PYKUEUE_SIMULATION_STEPS={self._steps}"
        replay = f"replay: {variables} pytest tests/simulation/test_campaign.py -k one_seed"
        return "\n".join(["", *last, str(self._report()), *listed, replay])

    def _report(self) -> Report:
        system = self.system
        return Report(
            seed=system.seed,
            profile=system.profile,
            steps=system.loop.steps,
            virtual_seconds=system.loop.now_ns / SECOND_NS,
            counts=dict(system.trace.counts),
            digest=system.trace.digest,
            lines=tuple(system.trace.lines),
        )


async def _awaited(work: Awaitable[None]) -> None:
    await work


class _ErrorHandler(logging.Handler):
    """An exception that a component only logs is a violation too, unless the simulation caused
    it.
    """

    def __init__(self, system: System) -> None:
        super().__init__(logging.ERROR)
        self._system = system

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OSError):
            self._system.monitor.report(f"{record.name} logged: {record.getMessage()} {error!r}")


@contextmanager
def _quiet(system: System) -> Iterator[None]:
    logger = logging.getLogger("pykueue")
    handler, level, propagates = _ErrorHandler(system), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


@contextmanager
def _own_collector() -> Iterator[None]:
    """Collect garbage at fixed steps only: the end of an object may have effects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _GrowingUids(random.Random):
    """Draws uids in the order in which objects are created.

    A queue breaks ties within a second by the order of arrival. A fresh engine does not know it
    and takes the uid; with uids that grow, both agree.
    """

    _count = 0

    def getrandbits(self, k: int, /) -> int:
        bits = super().getrandbits(k)
        if k != _UID_BITS:
            return bits
        self._count += 1
        return self._count << _COUNT_SHIFT | bits & ((1 << _COUNT_SHIFT) - 1)


def run(seed: int, steps: int) -> Report:
    campaign = Campaign(seed, profile=profiles.draw(random.Random(f"{seed} profile")))  # noqa: S311 - guards nothing
    return campaign.run(lambda campaign: campaign.episodes(steps))


def draw_seed() -> int:
    return random.SystemRandom().randrange(10**6)
