"""Replays recordings and counts. Called by `pykueue conformance` and by the project's own tests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.conformance import corpus, suites
from pykueue.conformance.differences import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    title: str
    differences: list[Difference] = field(default_factory=list)
    crash: str = ""


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of one file. `unknown_suites` have no runner: the file fails as a whole."""

    name: str
    passed: int = 0
    total: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    unknown_suites: set[str] = field(default_factory=set)

    @property
    def ok(self) -> bool:
        return not self.failures and not self.unknown_suites

    def __str__(self) -> str:
        if self.unknown_suites:
            return f"{self.name}: no runner"
        skipped = f" ({self.skipped} skipped: alpha gates)" if self.skipped else ""
        return f"{self.name}: {self.passed} of {self.total}{skipped}"


def replay(path: Path, titles: Iterator[str] | None = None) -> Report:
    """Replay one file; `titles` restricts it to the cases of these names."""
    wanted = None if titles is None else set(titles)
    report = Report(name=corpus.name_of(path))
    for case in corpus.cases(path):
        if wanted is None or corpus.title_of(case) in wanted:
            _replay_case(case, report)
    return report


def _replay_case(case: corpus.Case, report: Report) -> None:
    suite = corpus.suite_of(case)
    runner = suites.RUNNERS.get(suite)
    if runner is None:
        report.unknown_suites.add(suite)
        return
    if corpus.alpha_gates(case) and suite not in suites.RUNS_WITH_ALPHA_GATES:
        report.skipped += 1
        return
    report.total += 1
    try:
        found = runner(case)
    except Exception as error:  # noqa: BLE001 - a crash is one more way to differ, and the rest must still run
        report.failures.append(Failure(title=corpus.title_of(case), crash=f"{type(error).__name__}: {error}"))
        return
    if found:
        report.failures.append(Failure(title=corpus.title_of(case), differences=found))
    else:
        report.passed += 1
