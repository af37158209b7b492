"""The embedded Kubernetes API: store, handlers, watch, patch, tables, discovery, auth.

Invariant: knows no Kueue semantics beyond its registered types, defaults and validation.
"""
