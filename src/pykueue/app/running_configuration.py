"""The Kueue Configuration that a cluster runs with, as the cluster itself tells it.

`pykueue up` shows the one in force at `/configz`; Kueue and `pykueue controller` are installed with theirs in a ConfigMap. Used by commands
that decide as the controllers do.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykueue.api.errors import ApiError
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.kube.client import Client

_PAGE = "/configz"
_KEY = "kueue"
_NOT_FOR_US = (401, 403, 404)


def register(hooks: Hooks, controllers: "ConfiguredControllers") -> None:
    async def show(_call: HttpRequest) -> HttpResponse:
        return HttpResponse(body={_KEY: dict(controllers.configuration)})

    hooks.add_page(_PAGE, show)


async def find(client: "Client") -> Mapping[str, Any]:
    """Empty, which means the defaults, where nobody tells."""
    shown = await _asked(client, _PAGE)
    if isinstance(shown, dict) and isinstance(shown.get(_KEY), dict):
        told: Mapping[str, Any] = shown[_KEY]
        return told
    return await _installed(client)


async def _installed(client: "Client") -> Mapping[str, Any]:
    from pykueue.api.configuration import loading, sources
    from pykueue.app.configured_controllers import NAME
    from pykueue.controllers.settings import DEFAULT_NAMESPACE

    config_map = await _asked(client, f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{NAME}")
    found = sources.find({**config_map, "kind": "ConfigMap"}) if isinstance(config_map, dict) else None
    if found is None or loading.find_faults(found):
        return {}
    return loading.complete(found.configuration).document


async def _asked(client: "Client", path: str) -> Any:
    try:
        return await client.raw("GET", path)
    except ApiError as error:
        if error.code in _NOT_FOR_US:
            return None
        raise
