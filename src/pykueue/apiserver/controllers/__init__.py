"""Controllers behind the API: garbage collection, namespaces, event expiry, role aggregation.

**Invariant:** a controller reacts to committed changes and writes only through the verbs
(`tests/apiserver/controllers/test_controllers.py`).
"""
