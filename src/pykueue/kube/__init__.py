"""The client side of Kubernetes: the Client protocol, an HTTP client, informers, leases, controllers.

Invariant: the only package that speaks HTTP as a client.
"""
