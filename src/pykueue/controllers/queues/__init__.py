"""Statuses of ClusterQueues, LocalQueues and Cohorts."""
