"""`/metrics` of the embedded API: what the controllers count, for Prometheus. Wired by `parts`."""

import asyncio

from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.app.configured_controllers import ConfiguredControllers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def register(hooks: Hooks, controllers: ConfiguredControllers) -> None:
    async def metrics(_call: HttpRequest) -> HttpResponse:
        """Rendered beside the event loop, for there may be many queues."""
        controllers.metrics.refresh()
        return HttpResponse(body=await asyncio.to_thread(controllers.metrics.text), content_type=CONTENT_TYPE)

    hooks.add_page("/metrics", metrics)
