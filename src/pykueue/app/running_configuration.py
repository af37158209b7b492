"""The Kueue Configuration that a cluster runs with.

`pykueue up` serves the one in force at `/configz`. Kueue and `pykueue controller` are installed
with theirs in a ConfigMap. Used by commands that decide as the controllers do (`explain`,
`doctor`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykueue.api.errors import ApiError
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.kube.client import Client

_PATH = "/configz"
_KEY = "kueue"
_UNAVAILABLE = (401, 403, 404)


def register(hooks: Hooks, controllers: "ConfiguredControllers") -> None:
    async def configz(_call: HttpRequest) -> HttpResponse:
        return HttpResponse(body={_KEY: dict(controllers.configuration)})

    hooks.add_page(_PATH, configz)


async def is_served(client: "Client") -> bool:
    """Whether the API server has controllers of its own and shows their Configuration."""
    configz = await _get(client, _PATH)
    return isinstance(configz, dict) and _KEY in configz


async def find(client: "Client") -> Mapping[str, Any]:
    """The Configuration in force; empty, which means the defaults, if the cluster shows none."""
    configz = await _get(client, _PATH)
    if isinstance(configz, dict) and isinstance(configz.get(_KEY), dict):
        configuration: Mapping[str, Any] = configz[_KEY]
        return configuration
    return await _find_installed(client)


async def _find_installed(client: "Client") -> Mapping[str, Any]:
    from pykueue.api.configuration import loading, sources
    from pykueue.api.resources import KUEUE_NAMESPACE
    from pykueue.app.configured_controllers import NAME

    config_map = await _get(client, f"/api/v1/namespaces/{KUEUE_NAMESPACE}/configmaps/{NAME}")
    source = sources.find({**config_map, "kind": "ConfigMap"}) if isinstance(config_map, dict) else None
    if source is None or loading.find_faults(source):
        return {}
    return loading.complete(source.configuration).document


async def _get(client: "Client", path: str) -> Any:
    try:
        return await client.raw("GET", path)
    except ApiError as error:
        if error.code in _UNAVAILABLE:
            return None
        raise
