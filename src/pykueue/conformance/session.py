"""Replays recordings and counts the results. A new family of recordings is listed in `RUNNERS`.

Called by `pykueue conformance` and by the tests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.conformance import (
    corpus,
    cycles,
    flavors,
    lifecycle,
    placement,
    preemption,
    quota,
    requests,
    schedules,
    webhooks,
)
from pykueue.conformance.differences import Difference, Runner

RUNNERS: Mapping[str, Runner] = {
    **requests.RUNNERS,
    **webhooks.RUNNERS,
    **lifecycle.RUNNERS,
    **quota.RUNNERS,
    **flavors.RUNNERS,
    **preemption.RUNNERS,
    **schedules.RUNNERS,
    **cycles.RUNNERS,
    **placement.RUNNERS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFailure:
    title: str
    differences: list[Difference] = field(default_factory=list)
    crash: str = ""


@dataclass(slots=True, kw_only=True)
class FileReport:
    """The result of one file; the file fails if it has suites without a runner."""

    name: str
    passed: int = 0
    total: int = 0
    failures: list[CaseFailure] = field(default_factory=list)
    unknown_suites: set[str] = field(default_factory=set)

    @property
    def ok(self) -> bool:
        return not self.failures and not self.unknown_suites

    def __str__(self) -> str:
        if self.unknown_suites:
            return f"{self.name}: no runner"
        return f"{self.name}: {self.passed} of {self.total}"


def replay(path: Path, titles: Iterator[str] | None = None) -> FileReport:
    """Replays one file; `titles` selects cases by name."""
    selected = None if titles is None else set(titles)
    report = FileReport(name=corpus.name_of(path))
    for case in corpus.cases(path):
        if selected is None or corpus.title_of(case) in selected:
            _replay_case(case, report)
    return report


def _replay_case(case: corpus.Case, report: FileReport) -> None:
    suite = corpus.suite_of(case)
    runner = RUNNERS.get(suite)
    if runner is None:
        report.unknown_suites.add(suite)
        return
    report.total += 1
    try:
        mismatches = runner(case)
    except Exception as error:  # noqa: BLE001 - a crash is a failure of this case only
        report.failures.append(CaseFailure(title=corpus.title_of(case), crash=f"{type(error).__name__}: {error}"))
        return
    if mismatches:
        report.failures.append(CaseFailure(title=corpus.title_of(case), differences=mismatches))
    else:
        report.passed += 1
