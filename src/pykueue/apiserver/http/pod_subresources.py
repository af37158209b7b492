"""The subresources of pods: binding, and those that need a pod runtime.

The latter are refused with an explanation until `app.kubelet_api` registers its handlers.
"""

import datetime as dt

from pykueue.api import conditions, errors, objects
from pykueue.api.errors import FieldError
from pykueue.api.json_copy import copied
from pykueue.api.rules import reading
from pykueue.api.scheme import Object, Scheme
from pykueue.apiserver.calls import ResourceTarget, Verbs, WriteCall
from pykueue.apiserver.http import options, routes
from pykueue.apiserver.http.hooks import ExtraResource
from pykueue.apiserver.http.messages import Handler, HttpRequest, HttpResponse

LOG = ExtraResource(name="pods/log", kind="Pod", namespaced=True, verbs=("get",))
EXEC = ExtraResource(name="pods/exec", kind="PodExecOptions", namespaced=True, verbs=("create", "get"))
ATTACH = ExtraResource(name="pods/attach", kind="PodAttachOptions", namespaced=True, verbs=("create", "get"))
BINDING = ExtraResource(name="pods/binding", kind="Binding", namespaced=True, verbs=("create",))
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


class PodBinding:
    """`pods/binding`: how a scheduler assigns a pod to a node, once."""

    def __init__(self, verbs: Verbs, scheme: Scheme) -> None:
        self._verbs = verbs
        self._scheme = scheme

    async def create(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            raise routes.method_not_allowed()
        binding, name = request.body, request.route.name
        faults = list(_binding_faults(binding))
        if faults:
            raise errors.invalid("", "Binding", name, faults)
        kind = self._scheme.for_path("", "v1", "pods")
        assert kind is not None
        target = ResourceTarget(kind=kind, namespace=request.route.namespace, name=name, subresource="binding")
        call = WriteCall(
            user=request.user,
            field_manager=request.query.get("fieldManager", ""),
            user_agent=request.user_agent,
            dry_run=options.check_write(request.query, "CreateOptions"),
        )
        while True:
            pod = (await self._verbs.get(target)).decode()
            try:
                await self._verbs.update(target, _bound(pod, binding), call)
            except errors.ApiError as error:
                if error.code != 409 or (await self._verbs.get(target)).decode() == pod:
                    raise
                continue
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            return HttpResponse(status=201, body=status)


def _binding_faults(binding: Object) -> list[FieldError]:
    target = reading.mapping(binding.get("target"))
    faults = []
    if target.get("kind", "") not in ("", "Node"):
        detail = 'supported values: "Node", "<empty>"'
        faults.append(FieldError("FieldValueNotSupported", "target.kind", detail, target["kind"]))
    if not target.get("name"):
        faults.append(FieldError("FieldValueRequired", "target.name", ""))
    return faults


def _bound(pod: Object, binding: Object) -> Object:
    """The pod on the node of the binding; ApiError 409 if the binding is for another pod.

    `api.rules.builtin.pod_update` checks the rest.
    """
    name, metadata = objects.name(pod), reading.mapping(binding.get("metadata"))
    if metadata.get("uid", objects.uid(pod)) != objects.uid(pod):
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {objects.uid(pod)}"
        raise errors.conflict("", "pods/binding", name, why)
    new: Object = copied(pod)
    new["spec"]["nodeName"] = binding["target"]["name"]
    annotations = objects.annotations(pod) | reading.annotations(binding)
    if annotations:
        new["metadata"]["annotations"] = annotations
    scheduled = {"type": "PodScheduled", "status": "True"}
    present = objects.nested_list(pod, "status", "conditions")
    now = dt.datetime.now(dt.UTC)
    new.setdefault("status", {})["conditions"] = conditions.replaced(present, scheduled, now)
    return new
