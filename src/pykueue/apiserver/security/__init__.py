"""Authentication and authorization: certificates, tokens, kubeconfigs, RBAC, default roles.

**Invariant:** a request without a valid token gets 401, except on the public paths
(`tests/e2e/test_access.py`). Nothing here listens on a port.
"""
