"""Controllers behind the API: garbage collector, deletion of namespaces, expiry of events.

**Invariant:** a controller reacts to committed changes and writes only through the verbs
(`tests/apiserver/controllers/test_controllers.py`).
"""
