"""Runs a plan: queues, jobs and options in, a result with its report out.

`pykueue simulate` and notebooks use it. Several variants run on the same jobs, one in each core.
"""

import contextlib
import functools
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pykueue.api.configuration import loading, shipped
from pykueue.api.scheme import Object
from pykueue.simulate import what_if
from pykueue.simulate.engine_driver.jobs import JobTable
from pykueue.simulate.engine_driver.simulation import Simulation, SimulationOptions
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.report import figures, text
from pykueue.simulate.report.figures import Figures
from pykueue.simulate.report.outcomes import Outcomes
from pykueue.simulate.what_if import Variant

_PROGRESS_STEPS = 1000
_SAFE_PATH = "PYTHONSAFEPATH"


def default_configuration() -> Mapping[str, Any]:
    return loading.complete(shipped.document()).document


class NodeLoss(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    at_ns: int


@dataclass(slots=True, kw_only=True)
class SimulationPlan:
    objects: Sequence[Object]
    """Queues, flavors, nodes and classes, admitted."""
    jobs: JobTable
    configuration: Mapping[str, Any] = field(default_factory=default_configuration)
    options: SimulationOptions = field(default_factory=SimulationOptions)
    node_losses: Sequence[NodeLoss] = ()
    until_ns: int | None = None
    """Jobs that have not ended then are reported as pending or running."""
    title: str = "Simulation"
    notes: Sequence[str] = ()


@dataclass(slots=True, kw_only=True, repr=False)
class Result:
    figures: Figures
    outcomes: Outcomes
    cycles: int

    def __repr__(self) -> str:
        """The report that the command prints, for the last line of a notebook's cell."""
        return "\n".join(text.lines(self.figures))

    def job_rows(self) -> list[Figures]:
        """One dictionary for each job, ready for `pandas.DataFrame`."""
        return list(figures.job_rows(self.outcomes))


Progress = Callable[[Simulation], None]


def run(plan: SimulationPlan, variant: Variant | None = None, *, progress: Progress | None = None) -> Result:
    """Simulate the plan, or a variant of it."""
    items = plan.objects if variant is None else what_if.changed(plan.objects, variant)
    configuration = plan.configuration
    if variant is not None and variant.configuration is not None:
        configuration = variant.configuration
    world = World.from_objects(items, configuration)
    outcomes = Outcomes(plan.jobs, world.engine.view)
    simulation = Simulation(world, plan.jobs, options=plan.options, observer=outcomes)
    for loss in plan.node_losses:
        simulation.at(loss.at_ns, functools.partial(simulation.lose_node, loss.node))
    with _collected_rarely():
        simulation.run(plan.until_ns, stop=_progress_of(simulation, progress))
    outcomes.finish(simulation.now_ns if plan.until_ns is not None else outcomes.end_ns)
    title = plan.title if variant is None else f"{plan.title}: {variant.name}"
    report = figures.report(outcomes, world.engine.view, title=title, notes=plan.notes)
    return Result(figures=report, outcomes=outcomes, cycles=simulation.cycle_count)


@contextlib.contextmanager
def _collected_rarely() -> Iterator[None]:
    """The job table is no garbage: without this the collector visits it again and again."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _progress_of(simulation: Simulation, progress: Progress | None) -> Callable[[], bool] | None:
    if progress is None:
        return None
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        if steps % _PROGRESS_STEPS == 0:
            progress(simulation)
        return False

    return count


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared between variants; it travels between processes."""

    name: str
    figures: Figures
    first_start_ns: bytes
    preemptions: bytes


_SHARED: dict[str, SimulationPlan] = {}


def _share(plan: SimulationPlan) -> None:
    _SHARED["plan"] = plan


def _run_variant(variant: Variant) -> VariantResult:
    return compact(variant.name, run(_SHARED["plan"], variant))


def compact(name: str, result: Result) -> VariantResult:
    outcomes = result.outcomes
    return VariantResult(
        name=name,
        figures=result.figures,
        first_start_ns=outcomes.first_start_ns.tobytes(),
        preemptions=outcomes.preemptions.tobytes(),
    )


def run_all(
    plan: SimulationPlan, variants: Sequence[Variant], *, processes: int | None = None, ray_address: str | None = None
) -> Generator[VariantResult, None, None]:
    """Run variants on all cores, or on a Ray cluster; results keep the order of the variants."""
    for variant in variants:
        what_if.changed(plan.objects, variant)  # A wrong one is named before any of them runs.
    if ray_address is not None:
        from pykueue.simulate import on_ray

        yield from on_ray.run_all(plan, variants, ray_address)
        return
    workers = min(len(variants), processes or os.cpu_count() or 1)
    if workers <= 1:
        _share(plan)
        yield from map(_run_variant, variants)
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_share, initargs=(plan,)) as pool:
        try:
            with _interrupts_blocked(), _safe_path():
                futures = [pool.submit(_run_variant, variant) for variant in variants]
            for future in futures:
                yield future.result()
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that start inside import no module of the current directory, as a `random.py`."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH)
        if before is not None:
            os.environ[_SAFE_PATH] = before


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """For processes that start inside: Ctrl-C is sent to all of them, but only we answer it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
