"""What Kubernetes does behind the API to keep it tidy: owners, namespaces, expiry.

Invariant: each part reacts to committed changes and writes only through the verbs, as any client would.
"""
