"""HTTP/2 (RFC 9113) for the embedded API: frames, header compression, streams, flow control.

It knows nothing of Kubernetes: `connection` gives each request to a handler as a `Stream`, on
which the handler reads the body and writes the response.

**Invariant:** a connection costs what its requests cost: frames that ask for nothing are paid from
a credit (`tests/apiserver/http2/test_floods.py`), and what waits for a slow reader is bounded by
what the handler writes. Header blocks mean what another implementation reads in them
(`tests/apiserver/http2/test_hpack.py`).
"""
