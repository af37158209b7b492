"""`pykueue events`: what happened to jobs, queues and pods, and why; also as it happens."""

from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option("--for", "name", default="", help="Only events of objects whose name begins with this.")
@click.option("--warnings", is_flag=True, help="Only warnings.")
@outputs.with_report_output
@with_cluster
def events(*, follow: bool, name: str, warnings: bool, output: str, cluster: ClusterAccess) -> None:
    """Show what happened, and why.

    Without -n, events of all namespaces are shown, or of your own if you may not list all.
    """

    def is_chosen(row: "dict[str, Any]") -> bool:
        subject = row["object"].rpartition("/")[2]
        return (not warnings or row["type"] == "Warning") and (not name or _names(subject, name))

    async def run(client: "Client", namespace: str) -> None:
        from pykueue.api.resources import CORE_EVENT

        scope, page = await _list(client, cluster.namespace, namespace)
        rows = sorted(filter(is_chosen, map(_row, page.items)), key=lambda row: str(row["time"]))
        if output == "json" and not follow:
            outputs.show_json({"items": rows})
            return
        if not rows and not follow:
            outputs.nothing_found(scope or None)
            return
        for row in rows:
            _show(row, output)
        if not follow:
            return
        version = page.resource_version
        while True:
            async for event in client.watch(CORE_EVENT, scope, resource_version=version):
                version = event.object["metadata"].get("resourceVersion", version)
                if event.type in ("ADDED", "MODIFIED") and is_chosen(row := _row(event.object)):
                    _show(row, output)

    cluster.run(run)


async def _list(client: "Client", chosen: str, own: str) -> Any:
    """The namespace that is listed, "" for all, and its events."""
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import CORE_EVENT

    try:
        return chosen, await client.list(CORE_EVENT, chosen)
    except ApiError as error:
        if error.code != 403 or chosen:
            raise
        return own, await client.list(CORE_EVENT, own)


def _names(subject: str, name: str) -> bool:
    """Whether an object is that of a name, or belongs to it: a job's Workload and pods do."""
    return subject.startswith((name, f"job-{name}-"))


def _row(event: "Object") -> dict[str, Any]:
    subject = event.get("involvedObject") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    kind = str(subject.get("kind", "")).lower()
    namespace = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return {
        "time": next((str(time)[:19] + "Z" for time in times if time), ""),
        "object": f"{kind} {namespace}{subject.get('name', '')}",
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
        "count": event.get("count") or (event.get("series") or {}).get("count") or 1,
    }


def _show(row: "dict[str, Any]", output: str) -> None:
    if output == "json":
        import json

        outputs.echo(json.dumps(row))
        return
    from pykueue.api import escaping

    times = f" (x{row['count']})" if row["count"] > 1 else ""
    text = f"{row['time']}  {row['object']}  {row['reason']}{times}: {row['message']}"
    outputs.echo(escaping.one_line(text))
