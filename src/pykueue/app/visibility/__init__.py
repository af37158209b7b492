"""The visibility API: the pending workloads of a queue in their order."""
