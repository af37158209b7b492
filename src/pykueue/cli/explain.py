"""`pykueue explain`: what a job waits for, why it does not run, or how it ended.

The server of the visibility API answers, so that users need no rights beyond their namespace. A
cluster without that server is read with the rights of the user: an engine is built from its
objects and asked once.
"""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import escaping
from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_kind_and_name
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

_PATH = (
    "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{namespace}/explanations/{name}?kind={kind}&estimatedStart=true"
)
_UNSERVED = (403, 404, 503)
_LOG_LINES = 10
_PATIENCE_SECONDS = 2.0
_NEEDS_NO_WORDS = ("running", "finished", "admitted", "unknown")
_STUCK_STATES = ("in no queue", "not queued", "unschedulable", "failing to start")
_NEVER = "It can never start"
_INACTIVE = " is not active: "
_WHY = "Why not now: "
_NOT_SELECTED = "namespace doesn't match ClusterQueue selector"
_DECISION_SECONDS = 1.0
_POLL_SECONDS = 0.05
_WAITS_FOR_QUOTA = "insufficient unused quota"


@click.command
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=complete_kind_and_name)
@options.with_config("the one that the cluster runs with")
@outputs.with_report_output
@with_cluster
def explain(*, words: tuple[str, ...], config: Path | None, output: str, cluster: ClusterAccess) -> None:
    """Explain why a job waits, or how it runs or ended.

    NAME is a job or a Workload, KIND its kind: pykueue explain job train
    """
    kind, name = _kind_and_name(words)
    chosen = None if config is None else process.load_configuration(config).document

    async def read(client: "Client", namespace: str) -> "tuple[Object, list[str]]":
        explanation = await ask(client, namespace, name, kind=kind, configuration=chosen)
        if not _may_start(explanation):
            explanation.pop("estimatedStart", None)
        elif "estimatedStart" not in explanation:
            explanation |= await _estimated_start(client, explanation["workload"], chosen)
        return explanation, await _last_lines(client, namespace, explanation.get("outputPod", ""))

    hint = "without the visibility API, explain reads queues, flavors and workloads of all namespaces"
    explanation, last_lines = cluster.run(read, hint=hint, hint_codes=(403,))
    if output == "json":
        outputs.show_json(explanation)
        return
    for line in (explanation["summary"], *explanation["lines"]):
        outputs.echo(line)
    if "estimatedStart" in explanation:
        from pykueue.simulate.estimates import starts

        outputs.echo(f"\n{starts.text(explanation['estimatedStart'], time.time_ns())}")
    if last_lines:
        outputs.echo(f"\nThe last lines of its output (`pykueue logs pod/{explanation['outputPod']}`):")
        for line in last_lines:
            outputs.echo(f"  {escaping.one_line(line)}")


def _kind_and_name(words: tuple[str, ...]) -> tuple[str, str]:
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) == 1:
        return "", parts[0]
    if len(parts) == 2:
        return parts[0].lower(), parts[1]
    raise click.UsageError("too many arguments: write a name, or a kind and a name")


async def ask(
    client: "Client",
    namespace: str,
    name: str,
    *,
    kind: str = "",
    configuration: "Mapping[str, Any] | None" = None,
) -> "Object":
    """The explanation of a job; a Configuration other than the cluster's is tried here."""
    answer = await _ask_server(client, namespace, name, kind=kind) if configuration is None else None
    return answer or await _explain_here(client, namespace, name, kind=kind, configuration=configuration)


async def _ask_server(client: "Client", namespace: str, name: str, *, kind: str) -> "Object | None":
    """The explanation of the visibility API; None if the cluster does not serve it."""
    from pykueue.api.errors import ApiError

    try:
        answer: Object = await client.raw("GET", _PATH.format(namespace=namespace, name=name, kind=kind))
    except ApiError as error:
        is_answer = error.code == 404 and (error.details or {}).get("kind") == "explanations"
        if is_answer or error.code not in _UNSERVED:
            raise
        return None
    return answer


async def _explain_here(
    client: "Client", namespace: str, name: str, *, kind: str, configuration: "Mapping[str, Any] | None"
) -> "Object":
    from pykueue.app import running_configuration
    from pykueue.controllers.scheduler import job_facts, snapshot
    from pykueue.translate import job_explanations

    now_ns = time.time_ns()
    in_force = await running_configuration.find(client) if configuration is None else configuration
    queues = await snapshot.observe(client, in_force, now_ns=now_ns)
    job = job_facts.JobReference(namespace=namespace, name=name, kind=kind)
    facts = await job_facts.read(client, queues.engine.view, job, now_ns=now_ns)
    return job_explanations.as_json(facts, job_explanations.report(facts))


def _may_start(explanation: "Object") -> bool:
    return explanation["state"] == "pending" and not why_stuck(explanation)


async def _estimated_start(
    client: "Client", workload: str, configuration: "Mapping[str, Any] | None"
) -> "dict[str, Object]":
    """The field `estimatedStart`; none if the user may not read the queues or the job has gone."""
    from pykueue.api.errors import ApiError
    from pykueue.app import running_configuration
    from pykueue.controllers.scheduler import snapshot
    from pykueue.engine import values
    from pykueue.simulate.estimates import live

    now_ns = time.time_ns()
    try:
        in_force = await running_configuration.find(client) if configuration is None else configuration
        queues = await snapshot.observe(client, in_force, now_ns=now_ns)
    except ApiError as error:
        if error.code != 403:
            raise
        return {}
    key = values.WorkloadKey(workload)
    if queues.engine.view.workload(key) is None:
        return {}
    start = live.estimate(queues.engine, queues.workloads, key, now_ns=now_ns, configuration=in_force)
    return {"estimatedStart": start.as_json()}


async def _last_lines(client: "Client", namespace: str, pod: str) -> list[str]:
    from pykueue.api import resources
    from pykueue.api.errors import ApiError
    from pykueue.kube.http_client import HttpClient

    if not pod or not isinstance(client, HttpClient):
        return []
    chunks: AsyncIterator[bytes] = client.stream(
        resources.POD.path(namespace, pod, "log"), {"tailLines": str(_LOG_LINES)}
    )
    try:
        return b"".join([chunk async for chunk in chunks]).decode(errors="replace").splitlines()
    except ApiError:
        return []


async def warn_if_stuck(client: "Client", namespace: str, job: "Object") -> None:
    """Print what is wrong with a new job that cannot start as things are.

    A job that only waits for quota is not explained: many of them may be submitted at once. A job
    that waits for other jobs is in no queue yet.
    """
    from pykueue.api import objects
    from pykueue.api.errors import ApiError
    from pykueue.api.labels import ADMISSION_GATED_BY

    if ADMISSION_GATED_BY in objects.annotations(job):
        return
    try:
        note = await _note(client, namespace, job)
    except (ApiError, OSError):
        return
    if note:
        outputs.echo(f"Note: {note}", err=True)
        outputs.echo(f"`pykueue explain job {objects.name(job)}` says more.", err=True)


async def _note(client: "Client", namespace: str, job: "Object") -> str:
    """Why a new job cannot start; "" if it can, or waits for quota."""
    from pykueue.api import conditions, objects

    name = objects.name(job)
    workload = await _decided_workload(client, namespace, objects.uid(job))
    if workload is None:
        return why_stuck(await ask(client, namespace, name, kind="job"))
    condition = conditions.find(workload, "QuotaReserved")
    if condition is None or conditions.has_status_true(condition):
        # No node may be large enough, or an equal job was tried before and not this one. Only the
        # server is asked: most jobs are well.
        explanation = await _ask_server(client, namespace, name, kind="job")
        lines = () if explanation is None else explanation["lines"]
        return next((line for line in lines if line.startswith(_NEVER)), "")
    if _WAITS_FOR_QUOTA in condition.get("message", ""):
        return ""
    return why_stuck(await ask(client, namespace, name, kind="job"))


async def _decided_workload(client: "Client", namespace: str, uid: str) -> "Object | None":
    """The Workload of a job when the scheduler has tried it, or after a second.

    None if the job has no Workload after two seconds.
    """
    from pykueue.api import conditions, labels, resources
    from pykueue.kube.client import ListOptions

    selector = ListOptions(label_selector=f"{labels.JOB_UID}={uid}")
    for attempt in range(int(_PATIENCE_SECONDS / _POLL_SECONDS)):
        for workload in (await client.list(resources.WORKLOAD, namespace, selector)).items:
            is_late = attempt * _POLL_SECONDS >= _DECISION_SECONDS
            if is_late or conditions.find(workload, "QuotaReserved") is not None:
                return workload
        await asyncio.sleep(_POLL_SECONDS)
    return None


def why_stuck(explanation: "Object") -> str:
    """Why a job cannot start as things are; "" if it can."""
    for line in explanation["lines"]:
        if line.startswith(_NEVER) or _INACTIVE in line or _NOT_SELECTED in line:
            return str(line).removeprefix(_WHY)
    return str(explanation["summary"]) if explanation["state"] in _STUCK_STATES else ""


async def explain_if_late(client: "Client", namespace: str, name: str) -> None:
    """Print the first line of the explanation if the job does not run after two seconds.

    `submit -f`, `wait` and `logs -f` run it beside their own work.
    """
    from pykueue.api.errors import ApiError

    await asyncio.sleep(_PATIENCE_SECONDS)
    try:
        explanation = await ask(client, namespace, name, kind="job")
    except (ApiError, OSError):
        return
    if explanation["state"] not in _NEEDS_NO_WORDS:
        outputs.echo(explanation["summary"], err=True)
        never = next((line for line in explanation["lines"] if line.startswith(_NEVER)), "")
        if never:
            outputs.echo(never, err=True)
        outputs.echo(f"`pykueue explain job {name}` says more.", err=True)
