"""How we talk to a Kubernetes API: one Client protocol, an HTTP client, informers, events, leases.

Invariant: the only package that speaks HTTP as a client.
"""
