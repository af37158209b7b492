"""The client side of Kubernetes: clients, informers, leases, the controller runtime.

Invariant: the only package that speaks HTTP as a client.
"""
