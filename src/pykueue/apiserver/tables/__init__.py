"""The Tables that `kubectl get` prints. The server computes them, as in Kubernetes.

**Invariant:** a table depends only on the objects and on the `now` argument
(`tests/apiserver/test_tables.py`).
"""
