"""The scheduler: binds pods to nodes, or sets PodScheduled=False with kube-scheduler's message.

Invariant: the pods bound to a node never request more than the node's allocatable resources
(tests/cluster/scheduler/test_scheduling.py).
"""
