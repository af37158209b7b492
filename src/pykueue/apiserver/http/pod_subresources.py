"""The subresources of pods that need a pod runtime.

They are refused with an explanation until `app.kubelet_api` registers its handlers.
"""

from pykueue.api import errors
from pykueue.apiserver.http.hooks import ExtraResource
from pykueue.apiserver.http.messages import Handler, HttpRequest, HttpResponse

LOG = ExtraResource(name="pods/log", kind="Pod", namespaced=True, verbs=("get",))
EXEC = ExtraResource(name="pods/exec", kind="PodExecOptions", namespaced=True, verbs=("create", "get"))
ATTACH = ExtraResource(name="pods/attach", kind="PodAttachOptions", namespaced=True, verbs=("create", "get"))
PORT_FORWARD = ExtraResource(
    name="pods/portforward", kind="PodPortForwardOptions", namespaced=True, verbs=("create", "get")
)


def refusals() -> list[tuple[ExtraResource, Handler]]:
    return [
        (LOG, _refuse("logs are not kept: the cluster runs without a pod runtime (see pykueue up --runtime)")),
        (EXEC, _refuse("exec is not supported: the cluster runs without a pod runtime (see pykueue up --runtime)")),
        (ATTACH, _refuse("attach is not supported: the cluster runs without a pod runtime (see pykueue up --runtime)")),
        (
            PORT_FORWARD,
            _refuse("port-forward is not supported: no pod runs as processes (see pykueue up --runtime process)"),
        ),
    ]


def _refuse(why: str) -> Handler:
    async def handler(_request: HttpRequest) -> HttpResponse:
        raise errors.bad_request(why)

    return handler
