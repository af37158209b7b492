"""StatefulSets: one Workload for all replicas."""
