"""LeaderWorkerSets: one Workload a group of pods."""
