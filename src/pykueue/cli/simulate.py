"""`pykueue simulate`: what would happen to a set of jobs in a set of queues."""

import csv
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess

if TYPE_CHECKING:
    from pykueue.kube.client import Client
    from pykueue.simulate.engine_driver.simulation import Simulation
    from pykueue.simulate.planning import Result, SimulationPlan, VariantResult
    from pykueue.simulate.sources.cluster import ClusterHistory
    from pykueue.simulate.sources.manifests import Manifests
    from pykueue.simulate.what_if import Variant

Command = Callable[..., Any]

_SUFFIXES = (".yaml", ".yml", ".json")
_MEGABYTES = 64


DURATION = options.DurationOption(units_per_second=10**9, may_be_zero=True)
"""In nanoseconds, as the simulation counts."""


def _with_plan(command: Command) -> Command:
    """Add the options that describe queues and jobs."""
    for option in reversed(
        (
            click.option("-f", "--filename", "names", multiple=True, help="A file or folder with queues; may be repeated."),
            click.option("--jobs", "job_files", multiple=True, type=options.EXISTING_FILE,
                         help="A file with jobs: manifests, CSV, Parquet, SWF, sacct or a GPU trace; may be repeated."),
            click.option("--format", "file_format", type=click.Choice(["auto", "manifests", "table", "swf", "sacct", "philly"]),
                         default="auto", show_default=True, help="The format of the files of --jobs."),
            click.option("--generate", metavar="SETTINGS",
                         help="Draw jobs: 'jobs=1000 rate=60/h sizes=1*6,8 run=lognormal(1h,1.2) seed=7'."),
            click.option("--from-cluster", "days", type=click.FloatRange(min=0), metavar="DAYS",
                         help="Read the queues of the cluster, and the Workloads of so many last days."),
            click.option("--queue-map", multiple=True, metavar="QUEUE=NAMESPACE/NAME",
                         help="The LocalQueue of a queue in a trace; * stands for all others. May be repeated."),
            click.option("--scale", type=click.FloatRange(min=0.001), default=1.0, show_default=True,
                         help="Let the jobs of a trace arrive so many times as fast."),
            click.option("--run-time", type=DURATION, help="How long jobs run that do not say it. Default: for ever."),
            click.option("--interval", type=DURATION, default="0", show_default=True,
                         help="The time between the arrivals of jobs of manifests."),
            click.option("--kubeconfig", type=click.Path(path_type=Path),
                         help="The cluster of --from-cluster. Default: KUBECONFIG, else ~/.kube/config."),
            click.option("--until", type=DURATION, help="Stop at this time of the simulation."),
            click.option("--eviction-delay", type=DURATION, default="1s", show_default=True,
                         help="How long an evicted job keeps its quota."),
            click.option("--checkpoint", type=DURATION, help="How often jobs save their work. Default: never."),
            click.option("--check-delay", type=DURATION, default="0", show_default=True,
                         help="How long an admission check takes."),
            click.option("--lose-node", multiple=True, metavar="NODE@TIME", help="Delete a node at a time; may be repeated."),
            options.with_config("the one that pykueue up runs with"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def _with_variants(command: Command) -> Command:
    command = click.option(
        "--apply", "applied", multiple=True, type=options.EXISTING_FILE, help="Replace or add the objects of a file."
    )(command)
    return click.option(
        "--set", "settings", multiple=True, metavar="KIND/NAME.FIELD=VALUE",
        help="Change a field, such as clusterqueue/team-a.nominalQuota[gpu]=8. A range 4..16:2 runs all values.",
    )(command)  # fmt: skip


@click.group(invoke_without_command=True)
@_with_plan
@_with_variants
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), help="Write a report as one HTML file."
)
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Write one row for each job.")
@click.option("--processes", type=click.IntRange(min=1), help="How many processes run variants. Default: one a core.")
@click.option(
    "--ray", "ray_address", metavar="ADDRESS", help="Run variants on a Ray cluster: local, auto or ray://HOST:PORT."
)
@click.option(
    "--score-estimates",
    is_flag=True,
    help="Say how good estimated starts would have been for the second half of the jobs.",
)
@outputs.with_report_output
def simulate(
    *,
    settings: tuple[str, ...],
    applied: tuple[Path, ...],
    html_file: Path | None,
    csv_file: Path | None,
    processes: int | None,
    ray_address: str | None,
    score_estimates: bool,
    output: str,
    **request: Any,
) -> None:
    """Simulate jobs in queues: waits, usage, preemptions.

    The engine that decides in a cluster decides here, in virtual time. Nothing is written to a
    cluster.

        pykueue simulate -f queues.yaml --jobs jobs.csv --html report.html
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    from pykueue.simulate import planning, what_if

    with named_faults():
        plan = _plan(**request)
        if score_estimates:
            if settings or applied:
                raise click.UsageError("--score-estimates scores the queues as they are: leave out --set and --apply")
            _score_estimates(plan, output)
            return
        combinations = what_if.combined(settings)
        objects = _admitted_files(applied)
        variants = [
            what_if.Variant(
                name=", ".join([*(setting.text for setting in combination), *map(str, applied)]),
                settings=combination,
                objects=tuple(objects),
            )
            for combination in combinations
        ]
        if len(variants) > 1:
            if html_file is not None or csv_file is not None:
                raise click.UsageError("--html and --csv show one run: leave them out, or set one value")
            _compare(plan, variants, output, processes=processes, ray_address=ray_address, is_sweep=True)
            return
        variant = variants[0] if variants[0].name else None
        with _ProgressBar(len(plan.jobs)) as bar:
            result = planning.run(plan, variant, progress=bar.show)
    _write(result, html_file, csv_file)
    _print_report(result, output)


@simulate.command
@_with_plan
@_with_variants
@click.option("--variant-config", "configurations", multiple=True, type=options.EXISTING_FILE,
              help="A variant with another Kueue Configuration; may be repeated.")  # fmt: skip
@click.option("--together", is_flag=True, help="Make one variant of all changes, not one of each.")
@click.option("--processes", type=click.IntRange(min=1), help="How many processes run variants. Default: one a core.")
@click.option(
    "--ray", "ray_address", metavar="ADDRESS", help="Run variants on a Ray cluster: local, auto or ray://HOST:PORT."
)
@outputs.with_report_output
def diff(
    *,
    settings: tuple[str, ...],
    applied: tuple[Path, ...],
    configurations: tuple[Path, ...],
    together: bool,
    processes: int | None,
    ray_address: str | None,
    output: str,
    **request: Any,
) -> None:
    """Compare changes of queues on the same jobs.

    Every --set, --apply and --variant-config is a variant of its own.

        pykueue simulate diff -f queues.yaml --jobs jobs.csv --apply new-queues.yaml
    """
    with named_faults():
        plan = _plan(**request)
        variants = _variants(settings, applied, configurations, together=together)
        if not variants:
            raise click.UsageError("nothing to compare: add --set, --apply or --variant-config")
        _compare(plan, variants, output, processes=processes, ray_address=ray_address)


def _variants(
    settings: tuple[str, ...], applied: tuple[Path, ...], configurations: tuple[Path, ...], *, together: bool
) -> "list[Variant]":
    from pykueue.app import process
    from pykueue.simulate import what_if

    documents = {path: process.load_configuration(path).document for path in configurations}
    if together:
        name = ", ".join([*settings, *map(str, applied), *map(str, configurations)])
        chosen = next(reversed(documents.values()), None)
        return [
            what_if.Variant(
                name=name, settings=combination, objects=tuple(_admitted_files(applied)), configuration=chosen
            )
            for combination in what_if.combined(settings)
        ]
    variants = [
        *(what_if.Variant(name=one.text, settings=(one,)) for text in settings for one in what_if.parse(text)),
        *(what_if.Variant(name=str(path), objects=tuple(_admitted_files((path,)))) for path in applied),
        *(what_if.Variant(name=str(path), configuration=document) for path, document in documents.items()),
    ]
    # A variant that is given twice runs once.
    return list({variant.name: variant for variant in variants}.values())


def _compare(
    plan: "SimulationPlan",
    variants: "list[Variant]",
    output: str,
    *,
    processes: int | None,
    ray_address: str | None,
    is_sweep: bool = False,
) -> None:
    """Run all variants, and print a table of a sweep or the differences of each variant."""
    from pykueue.simulate.report import differences

    results, base = _run_all(plan, variants, processes=processes, ray_address=ray_address)
    entries = [differences.difference(base, result, plan.jobs) for result in results]
    if output == "json":
        outputs.show_json({"base": base.figures, "variants": entries})
        return
    for line in (differences.sweep_table if is_sweep else differences.lines)(base, entries):
        outputs.echo(line)


def _score_estimates(plan: "SimulationPlan", output: str) -> None:
    from pykueue.simulate.estimates import scoring

    figures = scoring.score(plan)
    if output == "json":
        outputs.show_json(figures)
        return
    for line in scoring.lines(figures):
        outputs.echo(line)


def _run_all(
    plan: "SimulationPlan", variants: "list[Variant]", *, processes: int | None, ray_address: str | None
) -> "tuple[list[VariantResult], VariantResult]":
    from pykueue.simulate import planning, what_if

    everything = [what_if.Variant(name="base"), *variants]
    results = []
    for result in planning.run_all(plan, everything, processes=processes, ray_address=ray_address):
        results.append(result)
        if sys.stderr.isatty():
            outputs.overwrite_line(f"{len(results)} of {len(everything)} variants")
    if sys.stderr.isatty():
        outputs.echo("", err=True)
    return results[1:], results[0]


def _plan(
    *,
    names: tuple[str, ...],
    job_files: tuple[Path, ...],
    file_format: str,
    generate: str | None,
    days: float | None,
    queue_map: tuple[str, ...],
    scale: float,
    run_time: int | None,
    until: int | None,
    eviction_delay: int,
    checkpoint: int | None,
    check_delay: int,
    lose_node: tuple[str, ...],
    interval: int,
    kubeconfig: Path | None,
    config: Path | None,
) -> "SimulationPlan":
    from pykueue.simulate import planning
    from pykueue.simulate.engine_driver.simulation import SimulationOptions
    from pykueue.simulate.engine_driver.world import World
    from pykueue.simulate.sources import files, generator, manifests
    from pykueue.simulate.sources.collector import JobCollector

    loaded = manifests.load(read_files(names))
    history = None if days is None else _history(ClusterAccess(kubeconfig=kubeconfig), days)
    objects = [*(history.objects if history else ()), *loaded.objects]
    configuration = _configuration(config, loaded, history)
    if not any(obj["kind"] == "ClusterQueue" for obj in objects):
        raise click.UsageError("there is no ClusterQueue: add -f FILE, or --from-cluster DAYS")
    world = World.from_objects(objects, configuration)
    collector = JobCollector(world, _queue_map(queue_map), scale)
    manifests.add_jobs(loaded.jobs, collector, run_ns=run_time, interval_ns=interval)
    for path in job_files:
        files.add(path, collector, file_format=file_format, run_ns=run_time, interval_ns=interval)
    if generate is not None:
        queues = [str(queue.key) for queue in world.engine.view.local_queues()]
        collector.add_rows(generator.read(generate, queues), "--generate")
    for row in history.workloads if history else ():
        run_ns = run_time if row.run_ns is None else row.run_ns
        collector.add_workload(row.workload, submit_ns=row.submit_ns, run_ns=run_ns)
    if not len(collector.jobs):
        raise click.UsageError("there are no jobs: add --jobs FILE, --generate or --from-cluster DAYS")
    notes = list(collector.notes())
    return planning.SimulationPlan(
        objects=objects,
        jobs=collector.jobs,
        configuration=configuration,
        options=SimulationOptions(
            eviction_delay_ns=max(1, eviction_delay), checkpoint_ns=checkpoint, check_delay_ns=check_delay
        ),
        node_losses=[_node_loss(text) for text in lose_node],
        until_ns=until,
        notes=notes,
    )


def _configuration(config: Path | None, loaded: "Manifests", history: "ClusterHistory | None") -> Mapping[str, Any]:
    """The Configuration of --config, of the files, of the cluster, or the shipped one."""
    from pykueue.app import process
    from pykueue.simulate import planning

    if config is not None:
        return process.load_configuration(config).document
    if loaded.configuration is not None:
        return loaded.configuration
    return planning.default_configuration() if history is None else history.configuration


def _history(access: ClusterAccess, days: float) -> "ClusterHistory":
    from pykueue.app import running_configuration
    from pykueue.simulate.sources import cluster

    async def read(client: "Client", _namespace: str) -> "ClusterHistory":
        items = await cluster.read_objects(client)
        return cluster.history(items, days, time.time_ns(), await running_configuration.find(client))

    return access.run(read)


def _node_loss(text: str) -> Any:
    from pykueue.simulate.planning import NodeLoss

    node, separator, at = text.partition("@")
    if not separator:
        raise click.BadParameter(f"{text!r}: write NODE@TIME, such as node-1@2h", param_hint="--lose-node")
    return NodeLoss(node=node, at_ns=DURATION.convert(at, None, None))


def _queue_map(entries: tuple[str, ...]) -> dict[str, str]:
    result = {}
    for entry in entries:
        name, separator, queue = entry.partition("=")
        if not separator or "/" not in queue:
            raise click.BadParameter(f"{entry!r}: write QUEUE=NAMESPACE/NAME", param_hint="--queue-map")
        result[name] = queue
    return result


def read_files(names: Iterable[str]) -> list[tuple[str, bytes]]:
    from pykueue.simulate.sources.rows import SourceError

    result = []
    for name in names:
        if name == "-":
            result.append(("-", sys.stdin.buffer.read(_MEGABYTES * 2**20)))
            continue
        path = Path(name)
        paths = sorted(entry for entry in path.rglob("*") if entry.suffix in _SUFFIXES) if path.is_dir() else [path]
        for entry in paths:
            try:
                result.append((str(entry), entry.read_bytes()))
            except OSError as error:
                raise SourceError(error.strerror or "unreadable", file=str(entry)) from None
    return result


def _admitted_files(paths: Iterable[Path]) -> list[Any]:
    from pykueue.simulate.sources import manifests

    return manifests.load(read_files(map(str, paths))).objects


class named_faults:  # noqa: N801 - reads as a statement
    """Turns a fault of the input into the message of a command."""

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        from pykueue.simulate.sources.rows import SourceError

        if isinstance(error, SourceError):
            raise click.ClickException(str(error)) from None


class _ProgressBar:
    """Jobs so far, their rate and the time left, on a terminal."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._started = time.monotonic()
        self._last = 0.0
        self._is_visible = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._last:
            outputs.overwrite_line("")

    def show(self, simulation: "Simulation") -> None:
        now = time.monotonic()
        if not self._is_visible or now - self._last < 0.2:
            return
        self._last = now
        done = simulation.ended_count
        rate = done / max(0.001, now - self._started)
        left = (self._jobs - done) / rate if rate else 0
        filled = int(30 * done / max(1, self._jobs))
        bar = "#" * filled + "." * (30 - filled)
        outputs.overwrite_line(f"[{bar}] {done:,}/{self._jobs:,} jobs  {rate:,.0f}/s  {left:,.0f} s left")


def _write(result: "Result", html_file: Path | None, csv_file: Path | None) -> None:
    from pykueue.simulate.report import html_page

    path = html_file
    try:
        if html_file is not None:
            html_file.write_text(html_page.page(result.figures, result.outcomes), encoding="utf-8")
        if csv_file is not None:
            path = csv_file
            _write_csv(result, csv_file)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def _write_csv(result: "Result", path: Path) -> None:
    from pykueue.simulate.report import figures

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(figures.JOB_COLUMNS)
        writer.writerows(figures.job_cells(result.outcomes))


def _print_report(result: "Result", output: str) -> None:
    from pykueue.simulate.report import text

    if output == "json":
        outputs.show_json(result.figures)
        return
    for line in text.lines(result.figures):
        outputs.echo(line)
