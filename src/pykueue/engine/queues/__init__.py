"""Queues: the pending workloads of each cluster queue, and the state of the cluster queue itself."""
