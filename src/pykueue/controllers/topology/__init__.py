"""Pods on their places: lets gated pods go to the domains that their workload was admitted to.

Invariant: a pod leaves its gate only with the node selector of a domain in which its pod set still misses one.
"""
