"""Quota: the tree of cluster queues and cohorts, its usage, reservations and fair shares."""
