"""The embedded Kubernetes API: store, verbs, watches, patches, tables, discovery, access control.

`calls.Verbs` is the whole interface; `core.Core` implements it on the store. Callers are the HTTP
application in `http/` and `LocalClient` in this process.

**Invariant:** a request of any content gets a response that Kubernetes clients understand
(`tests/apiserver/test_any_body.py`, `tests/e2e/test_fuzz.py`); every watch receives each committed
change once and in order (`tests/apiserver/test_watch_history.py`); objects that watchers in this
process share are never changed (`tests/apiserver/shared_copies.py`, checked by the system tests).
It contains no rule of Kueue; those are attached to the kinds of the scheme.
"""
