"""Nodes: a failed node is recorded in the status of the Workloads that are assigned to it."""
