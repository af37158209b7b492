"""`pykueue conformance`: replay recorded decisions of Kueue and report the differences."""

import fnmatch
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs

if TYPE_CHECKING:
    from pykueue.conformance.session import FileReport


@click.command
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--only", metavar="GLOB", help="Replay only the files, or the cases (FILE/CASE), whose name matches.")
@outputs.with_report_output
@click.option(
    "--differences", "limit", default=10, show_default=True, help="How many differing cases to print in full."
)
def conformance(paths: tuple[Path, ...], only: str | None, output: str, limit: int) -> None:
    """Replay recorded decisions and print the differences.

    PATHS are .jsonl or .jsonl.gz files, or folders of them. The exit code is 1 if a case differs.
    """
    from pykueue.conformance import corpus

    try:
        reports = []
        for path in corpus.recordings(paths):
            report = _replay(path, only)
            if report is None:
                continue
            reports.append(report)
            if output == "text":
                outputs.echo(str(report))
    except corpus.CorpusError as error:
        raise click.ClickException(str(error)) from error
    if not reports:
        raise click.ClickException(f"no recording matches {only}")
    if output == "json":
        outputs.echo(json.dumps([_as_json(report) for report in reports], indent=2))
    else:
        _print_failures(reports, limit)
    if not all(report.ok for report in reports):
        raise SystemExit(1)


def _replay(path: Path, only: str | None) -> "FileReport | None":
    from pykueue.conformance import corpus, session

    name = corpus.name_of(path)
    if only is None or fnmatch.fnmatchcase(name, only):
        return session.replay(path)
    if not fnmatch.fnmatchcase(name, only.partition("/")[0]):
        return None
    titles = (corpus.title_of(case) for case in corpus.cases(path))
    return session.replay(path, (title for title in titles if fnmatch.fnmatchcase(f"{name}/{title}", only)))


def _print_failures(reports: "Iterable[FileReport]", limit: int) -> None:
    failures = [(report, failure) for report in reports for failure in report.failures]
    for report, failure in failures[:limit]:
        outputs.echo(f"\n{report.name} / {failure.title}")
        if failure.crash:
            outputs.echo(f"  stopped by {failure.crash}")
        for difference in failure.differences[:8]:
            outputs.echo(f"  {difference}")
        if len(failure.differences) > 8:
            outputs.echo(f"  … and {len(failure.differences) - 8} more")
    if len(failures) > limit:
        outputs.echo(
            f"\n… and {len(failures) - limit} more cases that differ (--differences {len(failures)} shows all)"
        )


def _as_json(report: "FileReport") -> dict[str, object]:
    return {
        "name": report.name,
        "passed": report.passed,
        "total": report.total,
        "unknownSuites": sorted(report.unknown_suites),
        "failures": [
            {"case": failure.title, "crash": failure.crash, "differences": [str(item) for item in failure.differences]}
            for failure in report.failures
        ],
    }
