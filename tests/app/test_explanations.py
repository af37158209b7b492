"""Explanations read all Workloads of a namespace and think for long, so users take turns."""

import asyncio
from types import SimpleNamespace

from pykueue.apiserver.calls import UserInfo
from pykueue.apiserver.http import routes
from pykueue.apiserver.http.messages import HttpRequest
from pykueue.app.visibility import api as visibility

PATH = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/ml/explanations/job"


async def test_explanations_are_made_one_at_a_time(monkeypatch):
    """Eve is the second who is served, however many requests of Jane came before hers."""
    groups, served, running = [], [], []

    async def explanation(_client, _queues, job, **_options):
        running.append(job)
        assert len(running) == 1
        await asyncio.sleep(0)
        running.remove(job)
        return {}

    monkeypatch.setattr(visibility, "explanation", explanation)
    embedded = SimpleNamespace(
        hooks=SimpleNamespace(add_group=groups.append),
        authorizer=SimpleNamespace(allows=lambda *_: False),
        client=lambda: None,
    )
    controllers = SimpleNamespace(scheduler=SimpleNamespace(engine=SimpleNamespace(view=None)), cache=None)
    visibility.register(embedded, controllers)

    async def ask(user):
        request = HttpRequest(method="GET", route=routes.parse("GET", PATH, {}), user=UserInfo(name=user))
        await groups[0].handler(request)
        served.append(user)

    await asyncio.gather(*(ask("jane") for _ in range(10)), ask("eve"))
    assert len(served) == 11
    assert served.index("eve") <= 2
