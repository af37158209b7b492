"""The Kubernetes API over HTTP: paths, media types, discovery, OpenAPI, watch streams.

Handlers are functions from an `HttpRequest` to an `HttpResponse` (`messages`); `app` finds the
handler of a request. `http1` (aiohttp) and `http2_exchange` carry requests and responses.

**Invariant:** every request gets a response that a Kubernetes client understands
(`tests/e2e/test_fuzz.py`, `tests/apiserver/test_bodies.py`).
"""
