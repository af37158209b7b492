"""A webhook of the tests: an HTTPS server on this machine whose answers a test decides."""

import asyncio
import base64
import datetime as dt
import json
import ssl

from aiohttp import web

from pykueue.kube import issuing


class WebhookServer:
    """`answers` maps a path to a function from an AdmissionRequest to the fields of a response."""

    def __init__(self, directory, answers, hosts=("127.0.0.1", "hook.default.svc")):
        self.requests = []
        self.paths = []
        self.has_request = asyncio.Event()
        self.answers = answers
        now = dt.datetime.now(dt.UTC)
        validity = issuing.Validity(begin=now - dt.timedelta(hours=1), end=now + dt.timedelta(hours=1))
        authority = issuing.make_authority("test", validity)
        pair = issuing.make_server(authority, "hook", hosts, validity)
        self.authority = base64.b64encode(authority.certificate).decode()
        for name, data in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
            (directory / name).write_bytes(data)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        application = web.Application()
        application.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self):
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _handle(self, request):
        review = await request.json()
        self.requests.append(review["request"])
        self.paths.append(request.path)
        self.has_request.set()
        answer = self.answers[request.path](review["request"])
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        if isinstance(response.get("patch"), list):
            response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
            response.setdefault("patchType", "JSONPatch")
        return web.json_response({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})

    def client(self, path):
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.authority}
