"""The admission check that asks the autoscaler for machines first (`kueue.x-k8s.io/provisioning-request`).

Invariant: `decide` is pure; `controller` reads and applies.
"""
