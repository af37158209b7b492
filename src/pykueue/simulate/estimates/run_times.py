"""How long jobs run, learned from finished and running jobs of the same queue, name and size."""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec

FEWEST_SAMPLES = 5
"""With fewer finished jobs that are alike, nobody knows how long the next one runs."""
_FEWEST_LONGER = 2
_RANDOM_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_NUMBERS = "0123456789-_."

_Group = tuple[str, ...]


class JobTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs have in common that run about equally long."""

    queue: str
    name_prefix: str
    size: str


def name_prefix(name: str) -> str:
    """The name without its numbers and random end: `train` of `train-17` and `train-x7k2p`."""
    return _RANDOM_SUFFIX.sub("", name).rstrip(_NUMBERS) or name


class RunTimes:
    """The run times of jobs, sorted, by traits from the narrowest to the widest.

    A running job is a sample, too: it runs longer than it has run so far. Without these samples
    long jobs would count too little, because they finish late.
    """

    def __init__(self) -> None:
        self._finished_ns: defaultdict[_Group, list[int]] = defaultdict(list)
        self._running_ns: defaultdict[_Group, list[int]] = defaultdict(list)

    def add(self, traits: JobTraits, run_ns: int) -> None:
        for group in _groups(traits):
            bisect.insort(self._finished_ns[group], run_ns)

    def set_running(self, jobs: Iterable[tuple[JobTraits, int]]) -> None:
        """The jobs that run now, and how long each has run."""
        self._running_ns.clear()
        for traits, elapsed_ns in jobs:
            for group in _groups(traits):
                self._running_ns[group].append(elapsed_ns)

    def samples_ns(self, traits: JobTraits, *, longer_than_ns: int = 0) -> list[int]:
        """Run times of jobs that are alike and ran longer than that; empty if there are too few.

        A job that has run longer than nearly all that are most like it is compared with more jobs.
        """
        for group in _groups(traits):
            finished_ns = self._finished_ns.get(group, [])
            if len(finished_ns) < FEWEST_SAMPLES:
                continue
            longer_ns = finished_ns[bisect.bisect_right(finished_ns, longer_than_ns) :]
            if len(longer_ns) >= _FEWEST_LONGER:
                running_ns = [elapsed for elapsed in self._running_ns.get(group, ()) if elapsed > longer_than_ns]
                return _with_running(longer_ns, sorted(running_ns))
        return []


def _with_running(finished_ns: list[int], running_ns: list[int]) -> list[int]:
    """As many samples as jobs have finished, with the weights that running jobs move to the right.

    Each running job counts in equal parts as all jobs that ran longer than it has so far (the
    product-limit estimate of Kaplan and Meier). One that outlived all of them counts as the
    longest.
    """
    if not running_ns or running_ns[0] >= finished_ns[-1]:
        return [*finished_ns, *(finished_ns[-1:] * len(running_ns))]
    samples, position, survival = [], 0, 1.0
    count = len(finished_ns)
    left = count + len(running_ns)
    running = 0
    for run_ns in finished_ns:
        while running < len(running_ns) and running_ns[running] < run_ns:
            running += 1
            left -= 1
        survival *= 1 - 1 / left
        left -= 1
        while position < count and (position + 0.5) / count <= 1 - survival:
            samples.append(run_ns)
            position += 1
    return samples + finished_ns[-1:] * (count - position)


def _groups(traits: JobTraits) -> tuple[_Group, ...]:
    return (
        ("queue, name and size", traits.queue, traits.name_prefix, traits.size),
        ("queue and name", traits.queue, traits.name_prefix),
        ("queue and size", traits.queue, traits.size),
        ("queue", traits.queue),
    )


class RemainingTime(msgspec.Struct, frozen=True, kw_only=True):
    """How long a job may still run: several possible run times, and its time limit."""

    samples_ns: tuple[int, ...] = ()
    """Possible run times, sorted; empty if nobody knows."""
    elapsed_ns: int = 0
    """How long it has run already; 0 if it is pending."""
    limit_ns: int | None = None
    """`spec.maximumExecutionTimeSeconds` without what earlier runs of the job used of it."""

    def draw_ns(self, share: float) -> int | None:
        """The time of a share from 0 up to 1 of the samples, without what has elapsed.

        Without samples it is the time limit, and None if there is none either.
        """
        run_ns = self.samples_ns[int(share * len(self.samples_ns))] if self.samples_ns else self.limit_ns
        if run_ns is None:
            return None
        if self.limit_ns is not None:
            run_ns = min(run_ns, self.limit_ns)
        return max(0, run_ns - self.elapsed_ns)
