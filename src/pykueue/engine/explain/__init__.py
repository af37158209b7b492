"""Explain: why a workload waits, as data, and the smallest changes that would admit it."""
