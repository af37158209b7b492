"""The verbs over HTTP: converts requests for stored kinds to calls of `Verbs`, and results back.

Watches are streams and served by `watch_streams`.
"""

import asyncio
import time

import msgspec

from pykueue.api import errors
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.calls import (
    ObjectResponse,
    Page,
    PatchBody,
    ResourceTarget,
    Verbs,
    WriteCall,
)
from pykueue.apiserver.http import bodies, negotiation, options
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.tables import render
from pykueue.kube.client import PatchType

_LARGEST_BYTES_ON_LOOP = 50_000
"""Of a list that is written as YAML or as a table."""


class Resources:
    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

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
        form = request.form
        match request.route.verb:
            case "list":
                page = await self._verbs.list(target, options.list_call(request.query))
                return await _list_response(page, target.kind, form, request.query.get("includeObject", ""))
            case "deletecollection":
                call = options.delete_call(request.query, request.body, request.user)
                page = await self._verbs.delete_collection(target, options.list_call(request.query), call)
                return await _list_response(page, target.kind, form, request.query.get("includeObject", ""))
            case "get":
                version = request.query.get("resourceVersion", "")
                result = await self._verbs.get(target, resource_version=version)
            case "delete":
                call = options.delete_call(request.query, request.body, request.user)
                result = await self._verbs.delete(target, call)
            case _:
                result = await self._write(request, target)
        return object_response(result, target.kind, form, request.query.get("includeObject", ""))

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


async def _list_response(page: Page, kind: Kind, form: negotiation.Form, include: str) -> HttpResponse:
    """A large list is encoded in a thread: Python writes a megabyte of YAML in a second."""
    is_cheap = form.media != negotiation.YAML and not form.transform
    if is_cheap or sum(map(len, page.items)) <= _LARGEST_BYTES_ON_LOOP:
        return list_response(page, kind, form, include)
    return await asyncio.to_thread(list_response, page, kind, form, include)


def list_response(page: Page, kind: Kind, form: negotiation.Form, include: str) -> HttpResponse:
    if form.transform == "Table":
        table = render.table(
            kind, page.decode(), time.time(), metadata=page.metadata(), include=include or render.INCLUDE_METADATA
        )
        return HttpResponse(body=_encoded(table, form), content_type=form.content_type, warnings=page.warnings)
    if form.transform:
        items = [render.partial_metadata(obj) for obj in page.decode()]
        partial = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.transform_version}",
            "metadata": page.metadata(),
            "items": items,
        }
        return HttpResponse(body=_encoded(partial, form), content_type=form.content_type, warnings=page.warnings)
    body: bytes | list[bytes] = page.parts()
    if form.media == negotiation.YAML:
        body = _encoded(msgspec.json.decode(page.encode()), form)
    return HttpResponse(body=body, content_type=form.content_type, warnings=page.warnings)


def object_response(result: ObjectResponse, kind: Kind, form: negotiation.Form, include: str) -> HttpResponse:
    status = 201 if result.is_created else 200
    data = result.data
    if form.transform or form.media == negotiation.YAML:
        data = _encoded(transformed(result.decode(), kind, form, include), form)
    return HttpResponse(body=data, status=status, content_type=form.content_type, warnings=result.warnings)


def transformed(obj: Object, kind: Kind, form: negotiation.Form, include: str) -> Object:
    """One object in the requested form. A Status is not transformed."""
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
