"""The Kubernetes wire protocol: paths, media types, discovery, schemas, streams; everything a client can see.

Handlers are plain functions from a `Call` to a `Reply`; only `app.py` and `streams.py` know aiohttp.

**Invariant:** a request ends in an answer that a Kubernetes client understands, whatever it contained.
"""
