"""Workload slices: pods of elastic jobs are ungated up to the counts of their newest slice."""
