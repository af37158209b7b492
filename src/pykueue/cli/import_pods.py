"""`pykueue import`: Kueue's importer. Running pods get a queue and an admitted Workload."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import option_files, options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.controllers.importer.checks import ImportContext, PodImport
    from pykueue.controllers.importer.mapping import QueueRule
    from pykueue.kube.client import Client

_CONCURRENT_IMPORTS = 8
_PAIRS = "label=value pairs with commas between them"


def _pairs(text: str, option: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if not all(key and separator for key, separator, _ in pairs):
        raise click.UsageError(f"{option}: write {_PAIRS}")
    return {key: value for key, _, value in pairs}


@click.command(name="import")
@click.option("--queuelabel", default="", help="The label that decides about the LocalQueue of a pod.")
@click.option("--queuemapping", default="", metavar="VALUE=QUEUE,…", help="LocalQueues by the value of that label.")
@click.option("--queuemapping-file", type=options.EXISTING_FILE, help="A YAML file with rules instead.")
@click.option("--add-labels", default="", metavar="KEY=VALUE,…", help="More labels for pods and Workloads.")
@click.option("--exclude-resource-prefixes", default="", metavar="PREFIX,…", help="Resources that use no quota.")
@click.option("--dry-run/--no-dry-run", default=True, show_default=True, help="Only check, or import.")
@outputs.with_report_output
@with_cluster
def import_pods(
    *,
    queuelabel: str,
    queuemapping: str,
    queuemapping_file: Path | None,
    dry_run: bool,
    output: str | None,
    cluster: ClusterAccess,
    **extra: str,
) -> None:
    """Import running pods of a namespace into queues.

    Each pod gets a queue and an admitted Workload. Without --no-dry-run it is only checked whether
    all pods can be imported. The pods that finished are left alone.

    Import while the controller does not run, or runs without `pod` in integrations.frameworks:
    with it, running pods cannot get a queue.
    """
    from pykueue.controllers.importer import mapping

    if bool(queuemapping) == bool(queuemapping_file) or bool(queuemapping) != bool(queuelabel):
        raise click.UsageError("name --queuelabel with --queuemapping, or --queuemapping-file")
    try:
        rules = (
            mapping.from_document(option_files.load(queuemapping_file))
            if queuemapping_file
            else mapping.from_label(queuelabel, _pairs(queuemapping, "--queuemapping"))
        )
    except mapping.MappingError as error:
        raise click.ClickException(f"{queuemapping_file}: {error}") from None
    labels = _pairs(extra["add_labels"], "--add-labels")
    prefixes = tuple(prefix for prefix in extra["exclude_resource_prefixes"].split(",") if prefix)

    async def run(client: "Client", namespace: str) -> "dict[str, Any]":
        context = await _context(client, namespace, rules, labels=labels, prefixes=prefixes)
        return await _import_all(client, namespace, context, dry_run=dry_run)

    report = cluster.run(run)
    _show(report, output)
    if report["failed"]:
        raise SystemExit(1)


def _show(report: "dict[str, Any]", output: str | None) -> None:
    if output == "json":
        outputs.show_json(report)
        return
    verb = "can be imported" if report["dryRun"] else "imported"
    outputs.echo(f"{report['imported']} pods {verb}, {report['skipped']} skipped, {report['failed']} failed")
    for error in report["errors"]:
        outputs.echo(f"  {error['pods']} pods, first {error['first']}: {error['message']}", err=True)


async def _context(
    client: "Client", namespace: str, rules: "Sequence[QueueRule]", *, labels: dict[str, str], prefixes: tuple[str, ...]
) -> "ImportContext":
    from pykueue.api import objects, resources
    from pykueue.controllers.importer.checks import ImportContext
    from pykueue.controllers.jobs.context import PriorityClasses

    kinds = (
        resources.CLUSTER_QUEUE,
        resources.RESOURCE_FLAVOR,
        resources.WORKLOAD_PRIORITY_CLASS,
        resources.PRIORITY_CLASS,
    )
    local_queues = (await client.list(resources.LOCAL_QUEUE, namespace)).items
    queues, flavors, workload_classes, pod_classes = [
        {objects.name(obj): obj for obj in (await client.list(kind)).items} for kind in kinds
    ]
    return ImportContext(
        rules=rules,
        local_queues={(objects.namespace(obj), objects.name(obj)): obj for obj in local_queues},
        cluster_queues=queues,
        flavors=frozenset(flavors),
        classes=PriorityClasses(workload=workload_classes, pod=pod_classes),
        add_labels=labels,
        excluded_prefixes=prefixes,
    )


async def _import_all(client: "Client", namespace: str, context: "ImportContext", *, dry_run: bool) -> "dict[str, Any]":
    """Check all pods, then import those that can be, a few at a time."""
    from pykueue.api import objects, resources
    from pykueue.controllers.importer import checks

    plans: list[tuple[Object, PodImport]] = []
    messages: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for pod in (await client.list(resources.POD, namespace)).items:
        if checks.is_finished(pod):
            continue
        try:
            plan = checks.plan(pod, context, time.time_ns())
            if plan is not None:
                await _label(client, pod, plan, dry_run=True)
        except checks.PodImportError as error:
            messages.setdefault(str(error), []).append(objects.name(pod))
            continue
        counts["skipped" if plan is None else "imported"] += 1
        plans += [(pod, plan)] if plan is not None else []
    if not dry_run:
        slots = asyncio.Semaphore(_CONCURRENT_IMPORTS)
        await asyncio.gather(*(_import(client, pod, plan, slots) for pod, plan in plans))
    return {
        "dryRun": dry_run,
        "imported": counts["imported"],
        "skipped": counts["skipped"],
        "failed": sum(map(len, messages.values())),
        "errors": [{"message": text, "pods": len(pods), "first": pods[0]} for text, pods in messages.items()],
    }


async def _import(client: "Client", pod: "Object", plan: "PodImport", slots: asyncio.Semaphore) -> None:
    """Write the Workload first: a pod with a queue and no Workload would wait for its own.

    An import that was broken off is finished by the next one.
    """
    from pykueue.api import objects, resources
    from pykueue.api.errors import ApiError

    name, namespace = objects.name(plan.workload), objects.namespace(pod)
    async with slots:
        try:
            await client.create(resources.WORKLOAD, plan.workload, namespace)
        except ApiError as error:
            if error.code != 409:
                raise
        await client.patch(resources.WORKLOAD, name, namespace, {"status": plan.status}, subresource="status")
        await _label(client, pod, plan)


async def _label(client: "Client", pod: "Object", plan: "PodImport", *, dry_run: bool = False) -> None:
    from pykueue.api import objects, resources
    from pykueue.api.errors import ApiError
    from pykueue.controllers.importer.checks import PodImportError
    from pykueue.kube.client import WriteOptions

    labels = {"metadata": {"labels": dict(plan.labels)}}
    options = WriteOptions(dry_run=dry_run)
    try:
        await client.patch(resources.POD, objects.name(pod), objects.namespace(pod), labels, options=options)
    except ApiError as error:
        if not dry_run or error.code not in (403, 422):
            raise
        remedy = "import without the pod integration: leave `pod` out of integrations.frameworks meanwhile"
        raise PodImportError(f"{error.message}; {remedy}" if "immutable" in error.message else error.message) from None
