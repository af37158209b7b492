"""Queues: the state of each cluster queue, and its pending workloads."""
