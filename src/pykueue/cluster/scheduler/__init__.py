"""Placement: which node a pod gets, and in kube-scheduler's words why it gets none.

Invariant: the pods bound to a node never ask for more than the node has.
"""
