"""`pykueue conformance`: replay what Kueue was recorded to do, and show where we differ."""

import fnmatch
import json
from collections.abc import Iterable
from pathlib import Path

import click

from pykueue.cli import output as outputs
from pykueue.conformance import corpus, session


@click.command
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--only", metavar="GLOB", help="Only files, or `file/case`, whose name matches.")
@outputs.reports
@click.option("--differences", "shown", default=10, show_default=True, help="How many differing cases to show in full.")
def conformance(paths: tuple[Path, ...], only: str | None, output: str, shown: int) -> None:
    """Replay recorded decisions (.jsonl, .jsonl.gz, or folders of them) and print how many are reproduced."""
    try:
        reports = []
        for path in corpus.recordings(paths):
            report = _replayed(path, only)
            if report is None:
                continue
            reports.append(report)
            if output == "text":
                click.echo(str(report))
    except corpus.CorpusError as error:
        raise click.ClickException(str(error)) from error
    if not reports:
        raise click.ClickException(f"no recording matches {only}")
    if output == "json":
        click.echo(json.dumps([_as_json(report) for report in reports], indent=2))
    else:
        _show_failures(reports, shown)
    if not all(report.ok for report in reports):
        raise SystemExit(1)


def _replayed(path: Path, only: str | None) -> session.FileReport | None:
    name = corpus.name_of(path)
    if only is None or fnmatch.fnmatchcase(name, only):
        return session.replay(path)
    if not fnmatch.fnmatchcase(name, only.partition("/")[0]):
        return None
    titles = (corpus.title_of(case) for case in corpus.cases(path))
    return session.replay(path, (title for title in titles if fnmatch.fnmatchcase(f"{name}/{title}", only)))


def _show_failures(reports: Iterable[session.FileReport], shown: int) -> None:
    failures = [(report, failure) for report in reports for failure in report.failures]
    for report, failure in failures[:shown]:
        click.echo(f"\n{report.name} / {failure.title}")
        if failure.crash:
            click.echo(f"  stopped by {failure.crash}")
        for difference in failure.differences[:8]:
            click.echo(f"  {difference}")
        if len(failure.differences) > 8:
            click.echo(f"  … and {len(failure.differences) - 8} more")
    if len(failures) > shown:
        click.echo(f"\n… and {len(failures) - shown} more cases that differ (--differences {len(failures)} shows all)")


def _as_json(report: session.FileReport) -> dict[str, object]:
    return {
        "name": report.name,
        "passed": report.passed,
        "total": report.total,
        "skipped": report.skipped,
        "unknownSuites": sorted(report.unknown_suites),
        "failures": [
            {"case": failure.title, "crash": failure.crash, "differences": [str(item) for item in failure.differences]}
            for failure in report.failures
        ],
    }
