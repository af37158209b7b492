"""Creating objects from YAML through the API, as `kubectl create` would."""

import asyncio

from pykueue.api import manifests, registry
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient


async def with_client(kubeconfig, work):
    client = HttpClient(await access.from_kubeconfig(kubeconfig))
    try:
        return await work(client)
    finally:
        await client.close()


def create(kubeconfig, text):
    documents, faults = manifests.read(text)
    assert not faults

    async def work(client):
        for document in documents:
            kind = registry.scheme().for_object(document.object)
            namespace = document.object["metadata"].get("namespace", "default") if kind.namespaced else ""
            await client.create(kind.resource, document.object, namespace)

    asyncio.run(with_client(kubeconfig, work))


def wait_until(kubeconfig, resource, name, holds, seconds=100):
    async def work(client):
        async with asyncio.timeout(seconds):
            while True:
                obj = await client.get(resource, name, "default")
                if holds(obj):
                    return obj
                await asyncio.sleep(0.2)

    return asyncio.run(with_client(kubeconfig, work))


def server(kubeconfig):
    return asyncio.run(access.from_kubeconfig(kubeconfig)).server
