"""`pykueue list pods --for TYPE/NAME`: the pods of a job of any supported kind."""

import time
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.command(name="pods")
@click.option("--for", "owner", required=True, metavar="TYPE[.GROUP]/NAME", help="The job whose pods to list.")
@options.with_all_namespaces
@options.with_selectors
@outputs.with_object_output
@with_cluster
def list_pods(
    *, owner: str, all_namespaces: bool, selector: str, field_selector: str, cluster: ClusterAccess, output: str | None
) -> None:
    """List the pods of a job.

    For a pod, these are the pods of its pod group.
    """
    from pykueue.api import resources

    async def select(client: "Client", namespace: str) -> "tuple[list[Object], str]":
        from pykueue.kube.client import ListOptions

        scope = "" if all_namespaces else namespace
        job = await _job(client, owner, scope)
        if job is None:
            return [], namespace
        labels = ",".join(filter(None, (_pod_labels(job), selector)))
        options = ListOptions(label_selector=labels, field_selector=field_selector)
        return (await client.list(resources.POD, scope, options)).items, namespace

    pods, namespace = cluster.run(select)
    if outputs.is_structured(output):
        outputs.show_list(resources.POD, pods, str(output))
    elif not pods:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        _print_table(pods, is_wide=output == "wide", with_namespaces=all_namespaces)


async def _job(client: "Client", owner: str, namespace: str) -> "Object | None":
    from pykueue.cli import discovery
    from pykueue.kube.client import ListOptions

    word, slash, name = owner.partition("/")
    if not slash or not name:
        text = f"invalid value '{owner}' used in --for flag; value must be in the format TYPE[.API-GROUP]/NAME"
        raise click.ClickException(text)
    try:
        resource = await discovery.find(client, word)
    except discovery.UnknownKindError as fault:
        raise click.ClickException(str(fault)) from None
    jobs = (await client.list(resource, namespace, ListOptions(field_selector=f"metadata.name={name}"))).items
    return {"apiVersion": resource.api_version, "kind": resource.kind, **jobs[0]} if jobs else None


def _pod_labels(job: "Object") -> str:
    from pykueue.translate.jobs import pod_selectors

    labels = pod_selectors.of_job(job)
    if not labels:
        raise click.ClickException(f"unsupported kind: {job['kind']}")
    return labels


def _print_table(pods: "list[Object]", *, is_wide: bool, with_namespaces: bool) -> None:
    from pykueue.apiserver.tables.pods import PRINTERS

    printer = PRINTERS["", "Pod"]
    columns = [index for index, header in enumerate(printer.headers) if is_wide or not header.priority]
    rows = []
    for pod in pods:
        cells = printer.cells(pod, time.time())
        rows.append(tuple(str(cells[index]) for index in columns))
    headers = tuple(printer.headers[index].name.upper() for index in columns)
    outputs.show_table(headers, rows, namespaces=[objects.namespace(pod) for pod in pods] if with_namespaces else None)
