"""Authentication and authorization: certificates, tokens, kubeconfigs, RBAC rules and default roles.

**Invariant:** a request without a valid token is anonymous, and an anonymous user can read only the
public paths (`tests/apiserver/test_security.py`, `tests/e2e/test_access.py`). Nothing here listens.
"""
