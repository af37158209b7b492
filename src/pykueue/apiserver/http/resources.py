"""The verbs over HTTP: converts requests for stored kinds to calls of `Verbs`, and results back.

Watches are streams and served by `watch_streams`.
"""

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Kind
from pykueue.apiserver.calls import (
    ObjectResponse,
    Page,
    PatchBody,
    ResourceTarget,
    Verbs,
    WriteCall,
)
from pykueue.apiserver.http import bodies, encoding, negotiation, options
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.priority_levels import queue_of
from pykueue.apiserver.http.slow_thread import SlowThread
from pykueue.kube.client import PatchType


class Resources:
    def __init__(self, verbs: Verbs, thread: SlowThread) -> None:
        self._verbs = verbs
        self._encoder = encoding.ResponseEncoder(thread)

    async def handle(self, request: HttpRequest, target: ResourceTarget) -> HttpResponse:
        """Add the warning of a deprecated version to every response, also to errors."""
        deprecation = target.kind.deprecation_warning
        if not deprecation:
            return await self._handle(request, target)
        try:
            response = await self._handle(request, target)
        except errors.ApiError as error:
            error.warnings = (deprecation, *error.warnings)
            raise
        return msgspec.structs.replace(response, warnings=(deprecation, *response.warnings))

    async def _handle(self, request: HttpRequest, target: ResourceTarget) -> HttpResponse:
        form = request.form  # 406 before anything is written
        match request.route.verb:
            case "list":
                page = await self._verbs.list(target, options.list_call(request.query))
                return await self._list_response(request, form, target.kind, page)
            case "deletecollection":
                call = options.delete_call(request.query, request.body, request.user)
                page = await self._verbs.delete_collection(target, options.list_call(request.query), call)
                return await self._list_response(request, form, target.kind, page)
            case "get":
                version = request.query.get("resourceVersion", "")
                result = await self._verbs.get(target, resource_version=version)
            case "delete":
                call = options.delete_call(request.query, request.body, request.user)
                result = await self._verbs.delete(target, call)
            case _:
                result = await self._write(request, target)
        return await self._object_response(request, form, target.kind, result)

    async def _list_response(
        self, request: HttpRequest, form: negotiation.Form, kind: Kind, page: Page
    ) -> HttpResponse:
        if form.transform or form.media == negotiation.YAML:
            body = await self._encoder.encode_list(page, _shape(request, form, kind))
        else:
            body = page.parts()
        return HttpResponse(body=body, content_type=form.content_type, warnings=page.warnings)

    async def _object_response(
        self, request: HttpRequest, form: negotiation.Form, kind: Kind, result: ObjectResponse
    ) -> HttpResponse:
        data = result.data
        if form.transform or form.media == negotiation.YAML:
            data = await self._encoder.encode_object(data, _shape(request, form, kind))
        status = 201 if result.is_created else 200
        return HttpResponse(body=data, status=status, content_type=form.content_type, warnings=result.warnings)

    async def _write(self, request: HttpRequest, target: ResourceTarget) -> ObjectResponse:
        if request.route.verb == "patch":
            return await self._patch(request, target)
        value, faults = request.decode()
        body = bodies.expect_object(value)
        if request.route.verb == "create":
            return await self._verbs.create(target, body, _write_call(request, "CreateOptions", faults))
        return await self._verbs.update(target, body, _write_call(request, "UpdateOptions", faults))

    async def _patch(self, request: HttpRequest, target: ResourceTarget) -> ObjectResponse:
        media = bodies.media_type(request.content_type)
        try:
            patch_type = PatchType(media)
        except ValueError:
            accepted = ", ".join(patch_type.value for patch_type in PatchType)
            raise errors.unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            ) from None
        body, faults = request.decode()
        if patch_type is not PatchType.JSON and not isinstance(body, dict):
            raise errors.bad_request(
                f"error decoding patch: json: cannot unmarshal {bodies.go_name(body)} into Go value of type "
                "map[string]interface {}"
            )
        call = _write_call(request, "PatchOptions", faults)
        return await self._verbs.patch(target, PatchBody(type=patch_type, body=body), call)


def _shape(request: HttpRequest, form: negotiation.Form, kind: Kind) -> encoding.Shape:
    include = request.query.get("includeObject", "")
    return encoding.Shape(kind=kind, form=form, include=include, user=queue_of(request.user))


def _write_call(request: HttpRequest, options_kind: str, faults: tuple[str, ...]) -> WriteCall:
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
