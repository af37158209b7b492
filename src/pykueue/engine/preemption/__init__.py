"""Preemption: which workloads are evicted so that another one fits."""
