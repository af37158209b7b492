"""The verbs over HTTP: turns a request on a stored kind into a call of the core, and its answer into a reply.

Watches are the exception: they stream, so `streams` serves them.
"""

import time

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Kind, Object, Scheme
from pykueue.apiserver.calls import Answer, Page, Patch, Target, Verbs, WriteCall
from pykueue.apiserver.http import bodies, negotiation, options
from pykueue.apiserver.http.exchange import Incoming
from pykueue.apiserver.http.hooks import Reply
from pykueue.apiserver.tables import render
from pykueue.kube.client import PatchType

_SUBRESOURCE_VERBS = ("get", "update", "patch")
_COLLECTION_VERBS = ("list", "watch", "create", "deletecollection")
_NAMED_VERBS = ("get", "watch", "update", "patch", "delete")
_IN_ALL_NAMESPACES = ("list", "watch")


def missing() -> errors.ApiError:
    return errors.ApiError(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> errors.ApiError:
    message = "the server does not allow this method on the requested resource"
    return errors.ApiError(405, "MethodNotAllowed", message, {})


def find_target(scheme: Scheme, request: Incoming) -> Target:
    """The kind and name that a request is about; 404 or 405 when the path or the verb makes no sense for it."""
    route = request.route
    kind = scheme.for_path(route.group, route.version, route.plural)
    if kind is None or (route.namespace and not kind.namespaced and route.plural != "namespaces"):
        raise missing()
    if route.subresource and not _has_subresource(kind, route.subresource):
        raise missing()
    if route.subresource:
        allowed: tuple[str, ...] = _SUBRESOURCE_VERBS
    else:
        allowed = _NAMED_VERBS if route.name else _COLLECTION_VERBS
        if kind.namespaced and not route.namespace:
            allowed = () if route.name else _IN_ALL_NAMESPACES
    if route.verb not in allowed:
        raise not_allowed()
    namespace = route.namespace if kind.namespaced else ""
    return Target(kind=kind, namespace=namespace, name=route.name, subresource=route.subresource)


def _has_subresource(kind: Kind, name: str) -> bool:
    is_namespace = (kind.group, kind.kind) == ("", "Namespace")
    return (
        (name == "status" and kind.has_status)
        or (name == "scale" and kind.scale is not None)
        or (name == "finalize" and is_namespace)
    )


class Resources:
    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    async def handle(self, request: Incoming, target: Target) -> Reply:
        """Any use of a deprecated version is answered with its warning, a refused one too."""
        deprecation = target.kind.deprecation_warning
        if not deprecation:
            return await self._handle(request, target)
        try:
            reply = await self._handle(request, target)
        except errors.ApiError as refused:
            refused.warnings = (deprecation, *refused.warnings)
            raise
        return msgspec.structs.replace(reply, warnings=(deprecation, *reply.warnings))

    async def _handle(self, request: Incoming, target: Target) -> Reply:
        form = request.form
        match request.route.verb:
            case "list":
                page = await self._verbs.list(target, options.listing(request.query))
                return page_reply(page, target.kind, form, request.query.get("includeObject", ""))
            case "deletecollection":
                call = options.deleting(request.query, _delete_options(request), request.user)
                page = await self._verbs.delete_collection(target, options.listing(request.query), call)
                return page_reply(page, target.kind, form, request.query.get("includeObject", ""))
            case "get":
                version = request.query.get("resourceVersion", "")
                answer = await self._verbs.get(target, resource_version=version)
            case "delete":
                call = options.deleting(request.query, _delete_options(request), request.user)
                answer = await self._verbs.delete(target, call)
            case _:
                answer = await self._write(request, target)
        return answer_reply(answer, target.kind, form, request.query.get("includeObject", ""))

    async def outcome(self, request: Incoming, target: Target) -> Object:
        """What a write would lead to, without doing it."""
        rehearsal = msgspec.structs.replace(request, query={**request.query, "dryRun": "All"})
        return (await self._write(rehearsal, target)).decode()

    async def _write(self, request: Incoming, target: Target) -> Answer:
        if request.route.verb == "patch":
            return await self._patch(request, target)
        body, faults = bodies.decode_object(request.content_type, request.data)
        if request.route.verb == "create":
            return await self._verbs.create(target, body, _write_call(request, "CreateOptions", faults))
        return await self._verbs.update(target, body, _write_call(request, "UpdateOptions", faults))

    async def _patch(self, request: Incoming, target: Target) -> Answer:
        media = bodies.media_type(request.content_type)
        try:
            patch_type = PatchType(media)
        except ValueError:
            accepted = ", ".join(patch_type.value for patch_type in PatchType)
            raise errors.unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            ) from None
        body, faults = bodies.decode(media, request.data)
        if patch_type is not PatchType.JSON and not isinstance(body, dict):
            raise errors.bad_request(
                f"error decoding patch: json: cannot unmarshal {bodies.go_name(body)} into Go value of type "
                "map[string]interface {}"
            )
        call = _write_call(request, "PatchOptions", faults)
        return await self._verbs.patch(target, Patch(type=patch_type, body=body), call)


def _write_call(request: Incoming, options_kind: str, faults: tuple[str, ...]) -> WriteCall:
    query = request.query
    return WriteCall(
        user=request.user,
        field_manager=query.get("fieldManager", ""),
        user_agent=request.user_agent,
        dry_run=options.check_write(query, options_kind),
        force=query.get("force", "") in ("1", "true"),
        field_validation=query.get("fieldValidation", ""),
        decoding_faults=faults,
    )


def _delete_options(request: Incoming) -> Object:
    return bodies.decode_object(request.content_type, request.data)[0] if request.data else {}


def page_reply(page: Page, kind: Kind, form: negotiation.Form, include: str) -> Reply:
    if form.transform == "Table":
        table = render.table(
            kind, page.decode(), time.time(), metadata=page.metadata(), include=include or render.INCLUDE_METADATA
        )
        return Reply(body=_encoded(table, form), content_type=form.content_type, warnings=page.warnings)
    if form.transform:
        items = [render.partial_metadata(obj) for obj in page.decode()]
        partial = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.transform_version}",
            "metadata": page.metadata(),
            "items": items,
        }
        return Reply(body=_encoded(partial, form), content_type=form.content_type, warnings=page.warnings)
    data = page.encode()
    if form.media == negotiation.YAML:
        data = _encoded(msgspec.json.decode(data), form)
    return Reply(body=data, content_type=form.content_type, warnings=page.warnings)


def answer_reply(answer: Answer, kind: Kind, form: negotiation.Form, include: str) -> Reply:
    status = 201 if answer.is_created else 200
    data = answer.data
    if form.transform or form.media == negotiation.YAML:
        data = _encoded(transformed(answer.decode(), kind, form, include), form)
    return Reply(body=data, status=status, content_type=form.content_type, warnings=answer.warnings)


def transformed(obj: Object, kind: Kind, form: negotiation.Form, include: str) -> Object:
    """One object in the form asked for; a Status stays a Status."""
    if not form.transform or obj.get("kind") == "Status":
        return obj
    if form.transform == "Table":
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return render.table(kind, [obj], time.time(), metadata=metadata, include=include or render.INCLUDE_METADATA)
    return render.partial_metadata(obj) | {"apiVersion": f"meta.k8s.io/{form.transform_version}"}


def _encoded(obj: Object, form: negotiation.Form) -> bytes:
    if form.media == negotiation.YAML:
        import yaml

        return yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8")
    return msgspec.json.encode(obj)
