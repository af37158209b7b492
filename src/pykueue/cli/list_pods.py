"""`pykueue list pods --for TYPE/NAME`: the pods of a job of any supported kind."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client


def _by_label(key: str) -> "Callable[[Object], str]":
    return lambda job: f"{key}={objects.name(job)}"


def _training(job: "Object") -> str:
    name, operator = objects.name(job), f"{job['kind'].lower()}-controller"
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name={operator}"


def _mpi(job: "Object") -> str:
    name = objects.name(job)
    return f"training.kubeflow.org/job-name={name},training.kubeflow.org/operator-name=mpi-operator"


def _ray_job(job: "Object") -> str:
    cluster = objects.status(job).get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _ray_service(service: "Object") -> str:
    cluster = objects.nested(service, "status", "activeServiceStatus").get("rayClusterName")
    return f"ray.io/cluster={cluster}" if cluster else ""


def _pod_group(pod: "Object") -> str:
    key = "kueue.x-k8s.io/pod-group-name"
    return f"{key}={objects.labels(pod).get(key, '')}"


SELECTORS: "dict[tuple[str, str], Callable[[Object], str]]" = {
    ("batch", "Job"): _by_label("batch.kubernetes.io/job-name"),
    ("", "Pod"): _pod_group,
    ("jobset.x-k8s.io", "JobSet"): _by_label("jobset.sigs.k8s.io/jobset-name"),
    ("trainer.kubeflow.org", "TrainJob"): _by_label("jobset.sigs.k8s.io/jobset-name"),
    ("ray.io", "RayCluster"): _by_label("ray.io/cluster"),
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("sparkoperator.k8s.io", "SparkApplication"): _by_label("sparkoperator.k8s.io/app-name"),
    ("kubeflow.org", "MPIJob"): _mpi,
    **{("kubeflow.org", kind): _training for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")},
}
"""How to select the pods of a job, by group and kind: each operator sets its own labels."""


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
    group = job["apiVersion"].rpartition("/")[0]
    selector_of = SELECTORS.get((group, job["kind"]))
    labels = selector_of(job) if selector_of is not None else ""
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
