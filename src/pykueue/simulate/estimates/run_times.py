"""How long jobs run, learned from finished jobs of the same queue, name and size."""

import bisect
import re
from collections import defaultdict
from dataclasses import dataclass

FEWEST_SAMPLES = 5
"""With fewer finished jobs that are alike, nobody knows how long the next one runs."""
_FEWEST_LONGER = 2
_RANDOM_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_NUMBERS = "0123456789-_."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraits:
    """What jobs have in common that run about equally long."""

    queue: str
    name_prefix: str
    size: str


def name_prefix(name: str) -> str:
    """The name without its numbers and random end: `train` of `train-17` and `train-x7k2p`."""
    return _RANDOM_SUFFIX.sub("", name).rstrip(_NUMBERS) or name


class RunTimes:
    """The run times of finished jobs, sorted, by traits from the narrowest to the widest."""

    def __init__(self) -> None:
        self._samples_ns: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)

    def add(self, traits: JobTraits, run_ns: int) -> None:
        for group in _groups(traits):
            bisect.insort(self._samples_ns[group], run_ns)

    def samples_ns(self, traits: JobTraits, *, longer_than_ns: int = 0) -> list[int]:
        """Run times of jobs that are alike and ran longer than that; empty if there are too few.

        A job that has run longer than nearly all that are most like it is compared with more jobs.
        """
        for group in _groups(traits):
            samples_ns = self._samples_ns.get(group, [])
            if len(samples_ns) < FEWEST_SAMPLES:
                continue
            longer_ns = samples_ns[bisect.bisect_right(samples_ns, longer_than_ns) :] if longer_than_ns else samples_ns
            if len(longer_ns) >= _FEWEST_LONGER:
                return longer_ns
        return []


def _groups(traits: JobTraits) -> tuple[tuple[str, ...], ...]:
    return (
        ("queue, name and size", traits.queue, traits.name_prefix, traits.size),
        ("queue and name", traits.queue, traits.name_prefix),
        ("queue and size", traits.queue, traits.size),
        ("queue", traits.queue),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingTime:
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
