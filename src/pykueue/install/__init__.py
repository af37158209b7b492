"""What must be installed in a cluster: CRDs, RBAC, admission policies or webhooks, the controller.

Invariant: these are pure functions of the Configuration, which return objects; nothing here prints
or applies them.
"""
