"""Concurrent admission: a Workload is tried with every flavor of its ClusterQueue at a time."""
