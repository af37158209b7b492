"""`pykueue list pods --for TYPE/NAME`: the pods of a job of any queued kind."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


def _labelled(key: str) -> "Callable[[Object], str]":
    return lambda job: f"{key}={job['metadata']['name']}"


def _training(job: "Object") -> str:
    name, operator = job["metadata"]["name"], f"{job['kind'].lower()}-controller"
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name={operator}"


def _mpi(job: "Object") -> str:
    name = job["metadata"]["name"]
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name=mpi-operator"


def _ray_job(job: "Object") -> str:
    cluster = (job.get("status") or {}).get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _ray_service(service: "Object") -> str:
    active = (service.get("status") or {}).get("activeServiceStatus") or {}
    cluster = active.get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _pod_group(pod: "Object") -> str:
    key = "kueue.x-k8s.io/pod-group-name"
    return f"{key}={(pod['metadata'].get('labels') or {}).get(key, '')}"


SELECTORS: "dict[tuple[str, str], Callable[[Object], str]]" = {
    ("batch", "Job"): _labelled("batch.kubernetes.io/job-name"),
    ("", "Pod"): _pod_group,
    ("jobset.x-k8s.io", "JobSet"): _labelled("jobset.sigs.k8s.io/jobset-name"),
    ("trainer.kubeflow.org", "TrainJob"): _labelled("jobset.sigs.k8s.io/jobset-name"),
    ("ray.io", "RayCluster"): _labelled("ray.io/cluster"),
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("sparkoperator.k8s.io", "SparkApplication"): _labelled("sparkoperator.k8s.io/app-name"),
    ("kubeflow.org", "MPIJob"): _mpi,
    **{("kubeflow.org", kind): _training for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")},
}
"""How the pods of a kind are found: by the labels that its operator puts on them."""


@click.command()
@click.option("--for", "owner", required=True, metavar="TYPE[.GROUP]/NAME", help="The job.")
@click.option("--all-namespaces", "-A", is_flag=True, help="In all namespaces.")
@click.option("--selector", "-l", default="", help="A label selector.")
@click.option("--field-selector", default="", help="A field selector.")
@outputs.shows
@connects
def pods(
    *, owner: str, all_namespaces: bool, selector: str, field_selector: str, cluster: Cluster, output: str | None
) -> None:
    """List the pods of a job; of a pod, those of its group."""
    from pykueue.api import resources

    async def gather(client: "Client", namespace: str) -> "tuple[list[Object], str]":
        from pykueue.kube.client import ListOptions

        place = "" if all_namespaces else namespace
        job = await _job(client, owner, place)
        if job is None:
            return [], namespace
        labels = ",".join(filter(None, (_pod_labels(job), selector)))
        options = ListOptions(label_selector=labels, field_selector=field_selector)
        return (await client.list(resources.POD, place, options)).items, namespace

    found, namespace = cluster.run(gather)
    if outputs.is_structured(output):
        outputs.show_list(resources.POD, found, str(output))
    elif not found:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        _show(found, is_wide=output == "wide", with_namespaces=all_namespaces)


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
    found = await client.list(resource, namespace, ListOptions(field_selector=f"metadata.name={name}"))
    return {"apiVersion": resource.api_version, "kind": resource.kind, **found.items[0]} if found.items else None


def _pod_labels(job: "Object") -> str:
    group = job["apiVersion"].rpartition("/")[0]
    find = SELECTORS.get((group, job["kind"]))
    labels = find(job) if find is not None else ""
    if not labels:
        raise click.ClickException(f"unsupported kind: {job['kind']}")
    return labels


def _show(found: "list[Object]", *, is_wide: bool, with_namespaces: bool) -> None:
    from pykueue.apiserver.tables.pods import PRINTERS

    printer = PRINTERS["", "Pod"]
    shown = [index for index, header in enumerate(printer.headers) if is_wide or not header.priority]
    rows = []
    for pod in found:
        cells = printer.cells(pod, time.time())
        rows.append(tuple(str(cells[index]) for index in shown))
    headers = tuple(printer.headers[index].name.upper() for index in shown)
    outputs.show_table(
        headers, rows, namespaces=[pod["metadata"]["namespace"] for pod in found] if with_namespaces else None
    )
