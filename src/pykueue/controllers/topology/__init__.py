"""The topology ungater: removes the topology gates of
pods and sends the pods to their assigned domains.

Invariant: a pod is ungated only together with the node selector of a domain that still lacks a pod
of its pod set.
"""
