"""LeaderWorkerSets: one Workload for each group of pods."""
