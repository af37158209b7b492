"""`pykueue submit --queue Q --cpu 2 -- python train.py`: create a queued Job for a command."""

import getpass
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pykueue.cli import arrays, explain, job_names, job_request, options
from pykueue.cli import output as outputs
from pykueue.cli.arrays import ArrayOption
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, existing_names, with_cluster
from pykueue.cli.suggestions import INTERRUPTED

if TYPE_CHECKING:
    from pykueue.kube.client import Client

Command = Callable[..., Any]
DEFAULT_QUEUE = "default"


class SubmitCommand(click.Command):
    """Reads options from the header of the submitted script; those of the command line win.

    Options after the first word of the command are its own, with and without `--`.
    """

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, _, _ = self.make_parser(ctx).parse_args(list(args))
        command = words.get("command")
        header = job_request.header_options(command if isinstance(command, tuple) else ())
        try:
            self.make_parser(ctx).parse_args([*header, "--"])
        except click.UsageError as error:
            raise click.UsageError(f"{error.format_message()} It is in a #PYKUEUE line of the script.", ctx) from None
        return super().parse_args(ctx, [*header, *args])


class StopSignal(NamedTuple):
    name: str
    seconds: int


class StopSignalOption(click.ParamType[StopSignal]):
    name = "SIGNAL[@SECONDS]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> StopSignal:
        if isinstance(value, StopSignal):
            return value
        name, _, seconds = str(value).upper().partition("@")
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__ or not (seconds or "30").isdecimal():
            self.fail(f"{value!r} is not a signal with seconds; write for example USR1@60", param, ctx)
        return StopSignal(name, int(seconds or 30))


def _after(*names: str) -> Callable[[Command], Command]:
    *flags, end = names
    text = f"Wait in no queue until this Job {end}; may be repeated."
    return click.option(*flags, multiple=True, metavar="JOB", help=text, shell_complete=complete_names("job"))


_JOB_OPTIONS = (
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
    click.option(
        "--queue",
        "-q",
        default="",
        help="The LocalQueue. Default: `default`, else the only one of the namespace.",
        shell_complete=complete_names("localqueue"),
    ),
    click.option("--name", default="", help="The name of the Job. Default: generated from the command."),
    click.option(
        "--cpu",
        type=options.QuantityOption("2 or 500m"),
        default="1",
        show_default=True,
        help="CPUs of each pod, for example 2 or 500m.",
    ),
    click.option(
        "--memory",
        type=options.QuantityOption("4Gi or 500Mi", least_number=2**20),
        default="",
        help="Memory of each pod, requested and its limit, for example 4Gi. Default: neither.",
    ),
    click.option(
        "--gpu",
        "--gpus",
        type=options.GpusOption(),
        default="0",
        show_default=True,
        help="GPUs of each pod. `shared` is a share of a GPU, `mig-1g.5gb` a MIG instance; `shared:2` two of them.",
    ),
    click.option(
        "--time",
        type=options.DurationOption(needs_unit=True),
        help="How long the command may run, for example 30m or 2h; then it is stopped and the Job fails. Default: no limit.",
    ),
    click.option(
        "--array",
        type=ArrayOption(),
        help="Run a pod for each index, for example 0-99%10 (at most ten at a time), 1-5 or 1,3,7. As many run "
        "together as fit when the Job starts. The command finds its index in PYKUEUE_ARRAY_INDEX and in place "
        "of {index}. If one fails, the others go on.",
    ),
    click.option(
        "--from-json",
        "items",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Run a pod for each item of the JSON list in this file. The command finds its item in "
        "PYKUEUE_ARRAY_ITEM, as JSON, and its index as with --array.",
    ),
    _after("--after", "--after-ok", "after_ok", "has completed"),
    _after("--after-notok", "after_notok", "has failed"),
    _after("--after-any", "after_any", "has ended"),
    click.option(
        "--priority",
        default="",
        shell_complete=complete_names("priorityclass"),
        help="The WorkloadPriorityClass. Default: none.",
    ),
    click.option(
        "--parallelism",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="How many pods run at the same time.",
    ),
    click.option(
        "--completions",
        type=click.IntRange(min=1),
        help="How many pods must succeed; each finds its number in JOB_COMPLETION_INDEX. Default: as --parallelism.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="How many failed pods are replaced; in an array, of each index.",
    ),
    click.option(
        "--env",
        "-e",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="An environment variable, without a value as it is set here; may be repeated.",
    ),
    click.option(
        "--image",
        default=job_request.LOCAL_IMAGE,
        show_default=True,
        help="The container image; used on a real cluster only.",
    ),
    click.option(
        "--directory",
        "--workdir",
        type=click.Path(path_type=Path),
        help="The working directory. Default: the current one.",
    ),
    click.option(
        "--signal",
        type=StopSignalOption(),
        help="Preempt the command with this signal, and kill it after the seconds, for example USR1@60. Default: TERM@30.",
    ),
    click.option(
        "--notify",
        multiple=True,
        metavar="URL",
        help="Post a JSON object to this http or https address when the command ends or is preempted; may be "
        "repeated. The job itself sends it, with its own rights.",
    ),
    click.option(
        "--mail",
        multiple=True,
        metavar="ADDRESS",
        help="Send a mail when the command ends or is preempted, with the `sendmail` of the machine; may be repeated.",
    ),
    click.option(
        "--keep",
        type=options.DurationOption(),
        help="How long the finished Job is kept, for example 1d; then it is deleted. Default: for ever.",
    ),
)


def with_job_options(command: Command) -> Command:
    """Add the command to run and the options that describe its Job."""
    for option in reversed(_JOB_OPTIONS):
        command = option(command)
    return command


@click.command(cls=SubmitCommand)
@with_job_options
@click.option(
    "--follow", "-f", is_flag=True, help="Print the output, wait, and exit with the exit code of the command."
)
@outputs.with_object_output
@with_cluster
def submit(*, cluster: ClusterAccess, follow: bool, output: str | None, **request: Any) -> None:
    r"""Create a Job that runs a command.

    Options come first. A script may have options in its first lines.

    \b
    pykueue submit --cpu 2 -- python train.py --epochs 3
    #PYKUEUE --cpu 2 --time 1h
    """
    check_options(request)
    created: list[str] = []

    async def run(client: "Client", namespace: str) -> int:
        from pykueue.api import resources as kinds

        await complete(client, namespace, request)
        job = await client.create(kinds.JOB, job_request.job_of(request), namespace)
        name = job["metadata"]["name"]
        created.append(name)
        outputs.show(kinds.JOB, job, output, done="created")
        if not follow:
            await _warn_if_missing(client, request)
            _warn_if_closed(request, namespace)
            await explain.warn_if_stuck(client, namespace, job)
            return 0
        from pykueue.cli import logs, wait

        await logs.show(client, namespace, name, follow=True)
        report = await wait.end_of(client, job, await wait.until_finished(client, job))
        return await exit_code(client, namespace, name) if wait.show_end(report) else 0

    try:
        sys.exit(cluster.run(run))
    except KeyboardInterrupt:
        for name in created:
            text = f"job.batch/{name} goes on. `pykueue logs -f {name}` follows it, `pykueue cancel {name}` ends it."
            outputs.echo(f"\n{text}", err=True)
        sys.exit(INTERRUPTED)


def check_options(request: dict[str, Any]) -> None:
    """Refuse options that exclude each other, before anything is sent."""
    _check_directory(request["directory"], request["image"])
    _check_notices(request)
    if request["image"] == job_request.LOCAL_IMAGE:
        request["command"] = job_request.runnable(request["command"], request["directory"] or Path())
    if request["items"] is not None:
        if request["array"] or request["completions"]:
            raise click.UsageError("--from-json says how many pods there are; use it without --array and --completions")
        request["items"] = arrays.read_items(request["items"])
        request["array"] = arrays.TaskArray.of_completions(len(request["items"]), request["parallelism"])
        return
    if request["array"] and (request["completions"] or request["parallelism"] > 1):
        raise click.UsageError("--array says how many pods there are; use it without --completions and --parallelism")


def _check_notices(request: dict[str, Any]) -> None:
    if (request["notify"] or request["mail"]) and request["image"] != job_request.LOCAL_IMAGE:
        raise click.UsageError("--notify and --mail need jobs that run on this machine; use them without --image")
    for url in request["notify"]:
        if not url.startswith(("http://", "https://")):
            raise click.BadParameter(f"{url!r} is not an http or https address", param_hint="--notify")
    for address in request["mail"]:
        if "@" not in address or any(character.isspace() for character in address):
            raise click.BadParameter(f"{address!r} is not an address", param_hint="--mail")


async def complete(client: "Client", namespace: str, request: dict[str, Any]) -> None:
    """Choose the queue, and refuse what does not exist."""
    request["queue"] = await _queue(client, namespace, request["queue"])
    await _check_priority(client, request["priority"])
    await _check_dependencies(client, namespace, request)


def _check_directory(directory: Path | None, image: str) -> None:
    """Refuse a directory that does not exist, unless it may be one of an image."""
    if directory is not None and image == job_request.LOCAL_IMAGE and not directory.is_dir():
        raise click.BadParameter(
            f"{directory} is not a directory of this machine", param_hint="--directory / --workdir"
        )


async def _queue(client: "Client", namespace: str, name: str) -> str:
    """The named LocalQueue, else `default`, else the only one of the namespace."""
    from pykueue.api import objects
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import LOCAL_QUEUE

    try:
        names = sorted(map(objects.name, (await client.list(LOCAL_QUEUE, namespace)).items))
    except ApiError as error:
        if error.code != 403:
            raise
        if name:
            return name
        raise click.ClickException(f"{error.message}\nChoose a queue with --queue, or a namespace with -n.") from None
    if not names:
        raise click.ClickException(
            f"namespace {namespace} has no LocalQueue. An administrator creates one: "
            f"pykueue create localqueue NAME --clusterqueue QUEUE -n {namespace}"
        )
    if name in names:
        return name
    listed = ", ".join(names)
    if name:
        raise click.ClickException(f"LocalQueue {name} does not exist in namespace {namespace}; existing: {listed}")
    if len(names) == 1 or DEFAULT_QUEUE in names:
        return DEFAULT_QUEUE if DEFAULT_QUEUE in names else names[0]
    raise click.ClickException(f"namespace {namespace} has several queues, choose one with --queue: {listed}")


async def _check_priority(client: "Client", name: str) -> None:
    from pykueue.api.resources import WORKLOAD_PRIORITY_CLASS

    names = await existing_names(client, WORKLOAD_PRIORITY_CLASS) if name else None
    if names is not None and name not in names:
        raise click.ClickException(
            f"WorkloadPriorityClass {name} does not exist; existing: {', '.join(names) or 'none'}. "
            "An administrator creates one by `kubectl apply -f FILE`."
        )


async def _check_dependencies(client: "Client", namespace: str, request: dict[str, Any]) -> None:
    """Refuse Jobs that do not exist: the Job would wait for ever."""
    for option in ("after_ok", "after_notok", "after_any"):
        request[option] = tuple(map(job_names.plain, request[option]))
        for name in request[option]:
            await job_names.find(client, namespace, name)


async def _warn_if_missing(client: "Client", request: dict[str, Any]) -> None:
    """Say that this machine, which runs the command, does not have it."""
    if request["image"] != job_request.LOCAL_IMAGE or job_request.is_runnable(request):
        return
    from pykueue.api import labels, objects, resources
    from pykueue.api.errors import ApiError

    try:
        nodes = (await client.list(resources.NODE)).items
        runtimes = {objects.annotations(node).get(labels.CREATED_BY_RUNTIME, "") for node in nodes}
    except ApiError:  # the user may not list nodes
        runtimes = {"process"}
    if "process" in runtimes:
        place = (request["directory"] or Path()).resolve()
        program = request["command"][0]
        text = f"Note: the command {program} is not found on this machine, neither in PATH nor in {place}."
        outputs.echo(text, err=True)


def _warn_if_closed(request: dict[str, Any], namespace: str) -> None:
    """Say that a job in the cluster of another user may not be able to enter the directory."""
    from pykueue.cli.data_directory import running_kubeconfig

    if request["image"] != job_request.LOCAL_IMAGE or os.geteuid() == 0 or running_kubeconfig() is not None:
        return
    directory = (request["directory"] or Path()).resolve()
    if all(path.stat().st_mode & stat.S_IXOTH for path in (directory, *directory.parents)):
        return
    text = (
        f"Note: other users cannot enter {directory}. If this cluster runs jobs as a user of its own, let others enter "
        f"it (chmod o+x), use --workdir, or ask for `pykueue up --run-as {namespace}={getpass.getuser()}`."
    )
    outputs.echo(text, err=True)


async def exit_code(client: "Client", namespace: str, name: str) -> int:
    """The exit code of the container of a failed Job that ended last with one; else 1."""
    from pykueue.api import objects
    from pykueue.api.resources import POD
    from pykueue.kube.client import ListOptions

    selector = ListOptions(label_selector=f"batch.kubernetes.io/job-name={name}")
    ends = [
        (str(terminated.get("finishedAt") or ""), int(terminated["exitCode"]))
        for pod in (await client.list(POD, namespace, selector)).items
        for status in objects.nested_list(pod, "status", "containerStatuses")
        if (terminated := objects.nested(status, "state", "terminated")).get("exitCode")
    ]
    return max(ends)[1] if ends else 1
