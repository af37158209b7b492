"""The admission check controller `kueue.x-k8s.io/provisioning-request`:
asks the autoscaler for capacity.

Invariant: `decide` is pure; `controller` reads and applies.
"""
