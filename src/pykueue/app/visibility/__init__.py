"""The visibility API: the pending workloads of a queue, in order.

`pykueue up` serves it inside the embedded API (`api.py`), `pykueue controller` as an extension API
server of its own (`server.py`).
"""
