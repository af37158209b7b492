"""Nodes: a failed node is reported in the status
of the Workloads whose pods are assigned to it.
"""
