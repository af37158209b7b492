"""The page of a controller: the cluster's API server issues tokens and decides what they may see."""

import dataclasses
from contextlib import asynccontextmanager

import aiohttp
from tests.dashboard.test_cluster_server import bearer, rows_of

from pykueue.app import previews
from pykueue.dashboard.cluster_server import ClusterDashboard
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient

KUEUE = "kueue.x-k8s.io/v1beta2"
READABLE = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"


@asynccontextmanager
async def served(cluster):
    """The page with the rights of the controllers."""
    credentials = await access.from_kubeconfig(cluster.kubeconfig)
    client = HttpClient(credentials)

    async def preview(obj):
        return await previews.preview_for_page(client, obj)

    dashboard = ClusterDashboard(client, credentials, dict, port=0, preview=preview)
    await dashboard.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{dashboard.port}") as session:
        yield session
    await dashboard.stop()
    await client.close()


def create_workloads(cluster):
    """One Workload in the namespace of the reader, and one in another."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "page", "podSets": [{"name": "main", "count": 1, "template": template}]}
    for namespace in ("page-mine", "page-theirs"):
        cluster.kubectl("create", "namespace", namespace)
        inside = dataclasses.replace(cluster.kubectl, namespace=namespace)
        inside.apply({"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "one"}, "spec": spec})


def reader_token(cluster):
    kubectl = cluster.kubectl
    kubectl("create", "serviceaccount", "reader", "-n", "page-mine")
    kubectl("create", "role", "reader", "--verb=get,list,watch", f"--resource={READABLE}", "-n", "page-mine")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=page-mine:reader", "-n", "page-mine")
    return kubectl("create", "token", "reader", "-n", "page-mine").strip()


async def test_a_service_account_sees_its_namespace_and_changes_no_queue(cluster):
    create_workloads(cluster)
    try:
        token = reader_token(cluster)
        async with served(cluster) as site:
            assert list(await rows_of(site, token, "workloads")) == ["page-mine/one"]
            body = {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "page"}, "spec": {}}
            async with site.post("/dashboard/preview", json=body, headers=bearer(token)) as answer:
                assert answer.status == 403
            async with site.get("/dashboard/stream", headers=bearer(f"{token}x")) as answer:
                assert answer.status == 401
            async with site.get(f"/apis/{KUEUE}/namespaces/page-theirs/workloads", headers=bearer(token)) as answer:
                assert answer.status == 403
            async with site.get(f"/apis/{KUEUE}/namespaces/page-mine/workloads", headers=bearer(token)) as answer:
                assert [item["metadata"]["name"] for item in (await answer.json())["items"]] == ["one"]
    finally:
        cluster.kubectl("delete", "namespace", "page-mine", "page-theirs", "--wait=false")
