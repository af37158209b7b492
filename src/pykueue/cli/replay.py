"""`pykueue replay`: run the recorded events of the scheduler again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import process
from pykueue.cli import data_directory, manifest_files, options
from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory, with_data_dir

if TYPE_CHECKING:
    from pykueue.engine.policy import Policy
    from pykueue.recording.replay import Override, Replayer, ReplayStep

_ITSELF = "itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What to replay, and how."""

    directory: Path
    until_ns: int | None
    policy: "Policy | None"
    overrides: "Override"

    @property
    def is_changed(self) -> bool:
        return self.policy is not None or bool(self.overrides)


@click.command
@with_data_dir
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The directory of the record, as given to `pykueue controller`. Default: that of `pykueue up`.",
)
@click.option("--until", metavar="TIME", help="Stop at this time, such as 2026-01-02T15:04:05Z.")
@click.option("--why", metavar="WORKLOAD", default="", help="Tell the story of one Workload.")
@options.with_config("the one that was in force")
@click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    help="Replace queues, cohorts and flavors by those of a file or folder; may be repeated.",
)
@click.option(
    "--bisect",
    is_flag=False,
    flag_value=_ITSELF,
    default="",
    metavar="[PYTHON]",
    help="Find the first event after which decisions part: of the changed configuration (--config, -f), "
    "or of the pykueue that another Python interpreter has.",
)
@outputs.with_report_output
def replay(
    *,
    directory: DataDirectory,
    record: Path | None,
    until: str | None,
    why: str,
    config: Path | None,
    names: tuple[str, ...],
    bisect: str,
    output: str,
) -> None:
    """Replay what the scheduler decided, and why.

    `pykueue up` records the events of its scheduler; `pykueue controller` does with --record. A
    fresh engine gets them again and decides as it did then. With another configuration, each line
    says what it would have decided otherwise, given what had really happened until then.
    """
    from pykueue.recording import records, ring

    recording = record or data_directory.to_read(directory).path / ring.DIRECTORY
    if not ring.segments(recording):
        raise click.ClickException(f"{recording} has no record; `pykueue up` makes one unless --no-record is given")
    policy, document = _new_policy(config)
    task = _Task(directory=recording, until_ns=_time(until), policy=policy, overrides=_overrides(names, document))
    try:
        if bisect:
            _bisect(task, bisect, output)
        elif task.is_changed:
            _compare(task, output)
        else:
            _show(task, why, output)
    except records.RecordError as error:
        raise click.ClickException(str(error)) from None


def _time(text: str | None) -> int | None:
    from pykueue.api import times

    if text is None:
        return None
    try:
        return times.to_ns(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time such as 2026-01-02T15:04:05Z", param_hint="--until") from None


def _new_policy(config: Path | None) -> "tuple[Policy | None, dict[str, Any]]":
    from pykueue.translate import policy

    if config is None:
        return None, {}
    document = process.load_configuration(config).document
    return policy.engine_policy(document), document


def _overrides(names: tuple[str, ...], document: dict[str, Any]) -> "Override":
    from pykueue.engine import events
    from pykueue.recording import ring

    if not names:
        return {}
    from pykueue.api.manifest_validation import admitted
    from pykueue.lint import queue_set

    documents, faults = manifest_files.read(names)
    if faults:
        raise click.ClickException("\n".join(map(str, faults)))
    changed = queue_set.from_objects((obj for _, obj in admitted(documents)), document)
    new: list[events.EngineEvent] = [
        *(events.FlavorChanged(flavor=flavor) for flavor in changed.flavors.values()),
        *(events.CohortChanged(cohort=cohort) for cohort in changed.cohorts.values()),
        *(events.ClusterQueueChanged(cluster_queue=queue) for queue in changed.cluster_queues.values()),
        *(events.LocalQueueChanged(local_queue=queue) for queue in changed.local_queues.values()),
    ]
    if not new:
        raise click.ClickException("the files have no valid queue, cohort or flavor; `pykueue validate` says more")
    return {ring.object_of(event)[0]: event for event in new}


def _steps(task: _Task, *, is_changed: bool) -> "Iterator[ReplayStep]":
    from pykueue.recording import replay, ring

    replayer: Replayer = (
        replay.Replayer(policy=task.policy, overrides=task.overrides) if is_changed else replay.Replayer()
    )
    until_ns = task.until_ns
    return replayer.steps(
        ring.read(task.directory), is_over=lambda event: until_ns is not None and event.at_ns > until_ns
    )


def _show(task: _Task, why: str, output: str) -> None:
    from pykueue.recording import stories

    log = stories.DecisionLog(why)
    cycles = differing = 0
    is_empty = True
    for step in _steps(task, is_changed=False):
        cycles += step.recorded is not None
        differing += step.differs
        lines = list(log.lines(step))
        is_empty = is_empty and not lines
        if output == "json":
            if step.decided and (lines or not why):
                outputs.echo(json.dumps(_as_json(step)))
        else:
            for line in lines:
                outputs.echo(line)
    if output == "json":
        return
    if why and is_empty:
        raise click.ClickException(f"no recorded event is about a Workload {why}")
    outputs.echo(f"{cycles} cycles replayed; {differing or 'none'} decided otherwise than then.", err=True)


def _as_json(step: "ReplayStep") -> dict[str, Any]:
    from pykueue.recording import stories

    return {
        "number": step.number,
        "time": stories.clock_time(step.event.at_ns),
        "decisions": [
            {
                "decision": type(decision).__name__,
                "workload": decision.workload,
                "clusterQueue": decision.cluster_queue,
                "text": stories.decision_line(decision),
            }
            for decision in step.decided
        ],
    }


def _differences(task: _Task) -> "Iterator[tuple[ReplayStep, list[str]]]":
    """The cycles in which the changed configuration decides otherwise, with what it decides."""
    from pykueue.recording import records, stories

    for then, now in zip(_steps(task, is_changed=False), _steps(task, is_changed=True), strict=True):
        before, after = set(records.summary(then.decided)), set(records.summary(now.decided))
        if before == after:
            continue
        changed = {workload for _, workload in before ^ after}
        lines = [f"then: {_sentence(kind, workload)}" for kind, workload in sorted(before - after)]
        lines += [
            f"now:  {decision.workload} {stories.decision_line(decision)}"
            for decision in now.decided
            if decision.workload in changed
        ]
        lines += [f"now:  {_sentence('Preempt', workload)}" for kind, workload in after - before if kind == "Preempt"]
        yield now, lines


def _sentence(kind: str, workload: str) -> str:
    verbs = {"Admit": "is admitted", "Preempt": "is preempted", "Evict": "is evicted"}
    return f"{workload} {verbs.get(kind, kind)}"


def _compare(task: _Task, output: str) -> None:
    from pykueue.recording import stories

    number = 0
    for step, lines in _differences(task):
        number += 1
        if output == "json":
            outputs.echo(json.dumps({**_as_json(step), "differences": lines}))
            continue
        outputs.echo(f"{stories.clock_time(step.event.at_ns)}  event {step.number}")
        for line in lines:
            outputs.echo(f"  {line}")
    if output == "text":
        outputs.echo(f"{number or 'no'} cycle{'' if number == 1 else 's'} would have decided otherwise", err=True)


def _bisect(task: _Task, interpreter: str, output: str) -> None:
    if interpreter == _ITSELF:
        if not task.is_changed:
            raise click.UsageError("--bisect needs another configuration (--config, -f) or the path of another Python")
        first = next(((step.number, step.event.at_ns, lines) for step, lines in _differences(task)), None)
    else:
        first = _first_difference(task, interpreter)
    if output == "json":
        outputs.show_json(None if first is None else {"number": first[0], "differences": first[2]})
        return
    if first is None:
        outputs.echo("both decide the same about every event")
        return
    from pykueue.recording import stories

    outputs.echo(f"they part at event {first[0]}, {stories.clock_time(first[1])}:")
    for line in first[2]:
        outputs.echo(f"  {line}")


def _first_difference(task: _Task, interpreter: str) -> tuple[int, int, list[str]] | None:
    """Replay with the pykueue of another interpreter, and compare event by event."""
    command = [interpreter, "-P", "-m", "pykueue", "replay", "--record", str(task.directory), "-o", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - the user's own
    except (OSError, subprocess.CalledProcessError) as error:
        words = getattr(error, "stderr", "") or str(error)
        raise click.ClickException(f"{interpreter} cannot replay the record: {words.strip()}") from None
    others = {(line := json.loads(text))["number"]: line for text in done.stdout.splitlines()}
    for step in _steps(task, is_changed=False):
        mine, other = _as_json(step)["decisions"], others.get(step.number, {"decisions": []})["decisions"]
        if mine != other:
            lines = [f"{sys.executable}: {line['workload']} {line['text']}" for line in mine if line not in other]
            lines += [f"{interpreter}: {line['workload']} {line['text']}" for line in other if line not in mine]
            return step.number, step.event.at_ns, lines
    return None
