"""What a page receives: rows by the rights of its user, and changes."""

import asyncio
import json

from pykueue.api import resources
from pykueue.api.scheme import Resource
from pykueue.dashboard.feed import Feed
from pykueue.dashboard.history import History
from pykueue.dashboard.page_stream import PageStream
from pykueue.kube import informer

ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
DEADLINE_SECONDS = 20


class Reader:
    """The tables of one page."""

    def __init__(self, api, feed, user, scope_seconds):
        async def may_access(access):
            return api.authorizer.allows(user, access)

        stream = PageStream(
            feed=feed,
            history=History(api.client(), dict),
            may_access=may_access,
            user=user.name,
            mode="up",
            scope_seconds=scope_seconds,
        )
        self._lines = stream.lines()
        self.tables = {}
        self.is_ready = False
        self.listed = set()
        self.hello = {}

    async def until(self, is_reached):
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not is_reached():
                self._apply(json.loads(await anext(self._lines)))

    def _apply(self, message):
        self.is_ready = self.is_ready or bool(message.get("ready"))
        self.listed |= set(message.get("listed", ()))
        self.hello = message.get("hello", self.hello)
        if "rows" in message:
            table = self.tables.setdefault(message["rows"], {})
            if message.get("reset"):
                table.clear()
            table |= dict(message["set"])
            for key in message["del"]:
                table.pop(key, None)

    async def close(self):
        await self._lines.aclose()


class SlowLists:
    """A client whose lists of Workloads wait after their first page."""

    def __init__(self, client):
        self._client = client
        self.may_go_on = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def list(self, resource, namespace="", options=None):
        if resource == resources.WORKLOAD and options is not None and options.continue_token:
            await self.may_go_on.wait()
        return await self._client.list(resource, namespace, options)


class Pages:
    def __init__(self, api):
        self.api = api
        self.feed = Feed(api.client())
        self._readers = []

    def reader(self, token, scope_seconds=10.0):
        reader = Reader(self.api, self.feed, self.api.authenticate(token), scope_seconds)
        self._readers.append(reader)
        return reader

    async def open(self, token, *, scope_seconds=10.0):
        reader = self.reader(token, scope_seconds)
        await reader.until(lambda: reader.is_ready)
        await reader.until(lambda: reader.listed == {"workloads", "pods"})
        return reader

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for reader in self._readers:
            await reader.close()
        await self.feed.stop()


async def create_workload(api, namespace, name):
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queueName": "q",
            "podSets": [
                {
                    "name": "main",
                    "count": 1,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
                }
            ],
        },
    }
    await api.client().create(resources.WORKLOAD, obj, namespace)


async def create_namespace(api, name):
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await api.client().create(resources.NAMESPACE, obj)


async def bind(api, user, namespace):
    obj = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await api.client().create(ROLE_BINDING, obj, namespace)


async def test_the_administrator_sees_all_workloads(api):
    await create_workload(api, "default", "one")
    async with Pages(api) as pages:
        page = await pages.open(api.access.token)
        assert list(page.tables["workloads"]) == ["default/one"]


async def test_a_page_is_shown_before_all_workloads_are_read(api, monkeypatch):
    """The second page of the list never comes; the rows of the first one are there."""
    for name in ("one", "two"):
        await create_workload(api, "default", name)
    monkeypatch.setattr(informer, "_PAGE", 1)
    async with Pages(api) as pages:
        client = SlowLists(api.client())
        pages.feed = Feed(client)
        reader = pages.reader(api.access.token)
        await reader.until(lambda: reader.is_ready and reader.tables.get("workloads"))
        assert list(reader.tables["workloads"]) == ["default/one"]
        assert "workloads" not in reader.listed
        client.may_go_on.set()
        await reader.until(lambda: "workloads" in reader.listed)
        assert list(reader.tables["workloads"]) == ["default/one", "default/two"]


async def test_a_user_of_one_namespace_sees_only_that_namespace(api, token_of):
    for namespace in ("mine", "theirs"):
        await create_namespace(api, namespace)
        await create_workload(api, namespace, "one")
    await bind(api, "alice", "mine")
    async with Pages(api) as pages:
        page = await pages.open(token_of("alice"))
        assert list(page.tables["workloads"]) == ["mine/one"]
        assert (page.tables["clusterqueues"], page.tables["nodes"]) == ({}, {})


async def test_a_user_without_rights_sees_nothing(api, token_of):
    await create_workload(api, "default", "one")
    async with Pages(api) as pages:
        page = await pages.open(token_of("bob"))
        assert {name: table for name, table in page.tables.items() if table} == {}


async def test_rows_of_a_namespace_that_is_new_arrive_by_its_rights(api, token_of):
    async with Pages(api) as pages:
        page = await pages.open(token_of("alice"))
        for namespace in ("mine", "theirs"):
            await create_namespace(api, namespace)
        await bind(api, "alice", "mine")
        await create_workload(api, "theirs", "one")
        await create_workload(api, "mine", "one")
        await page.until(lambda: page.tables["workloads"])
        assert list(page.tables["workloads"]) == ["mine/one"]


async def test_rows_are_taken_back_when_a_right_is_lost(api, token_of):
    await create_namespace(api, "mine")
    await create_workload(api, "mine", "one")
    await bind(api, "alice", "mine")
    async with Pages(api) as pages:
        page = await pages.open(token_of("alice"), scope_seconds=0.1)
        assert list(page.tables["workloads"]) == ["mine/one"]
        await api.client().delete(ROLE_BINDING, "alice", "mine")
        await page.until(lambda: not page.tables["workloads"])


async def test_a_deleted_workload_leaves_the_page(api):
    await create_workload(api, "default", "one")
    async with Pages(api) as pages:
        page = await pages.open(api.access.token)
        await api.client().delete(resources.WORKLOAD, "one", "default")
        await page.until(lambda: not page.tables["workloads"])


async def test_many_changes_of_one_object_are_one_row(api):
    async with Pages(api) as pages:
        page = await pages.open(api.access.token)
        await create_workload(api, "default", "one")
        for priority in range(20):
            await api.client().patch(
                resources.WORKLOAD, "one", "default", {"metadata": {"labels": {"n": str(priority)}}}
            )
        await page.until(lambda: page.tables["workloads"])
        assert list(page.tables["workloads"]) == ["default/one"]
