"""An API server in this process, over real HTTPS and without controllers, for commands."""

import asyncio
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from pykueue.api import registry
from pykueue.api.scheme import Settings
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.cli.main import cli
from pykueue.kube import access
from pykueue.kube.http_client import HttpClient


class Cluster:
    def __init__(self, kubeconfig, loop):
        self.kubeconfig = kubeconfig
        self._loop = loop

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def do(self, action):
        """Run `await action(client)`."""

        async def run():
            client = HttpClient(await access.from_kubeconfig(self.kubeconfig))
            try:
                return await action(client)
            finally:
                await client.close()

        return self.call(run())

    def create(self, resource, obj):
        return self.do(lambda client: client.create(resource, obj, obj["metadata"].get("namespace", "")))

    def get(self, resource, name, namespace=""):
        return self.do(lambda client: client.get(resource, name, namespace))

    def pykueue(self, *words, stdin=None):
        return CliRunner().invoke(cli, [*words, "--kubeconfig", str(self.kubeconfig)], input=stdin)


_NO_FRAMEWORKS = Settings()


@contextmanager
def served(directory, settings=_NO_FRAMEWORKS):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    api = EmbeddedApi(ServerPaths(directory=directory, host="127.0.0.1", port=0), registry.scheme(), settings)
    cluster = Cluster(directory / "kubeconfig", loop)
    try:
        cluster.call(api.start())
        yield cluster
    finally:
        cluster.call(api.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with served(tmp_path_factory.mktemp("api")) as running:
        yield running
