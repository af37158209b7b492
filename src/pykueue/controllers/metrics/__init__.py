"""Prometheus metrics with Kueue's names, labels and buckets.

What happened is counted where it shows: in the changes of objects that the mirror tells of, and in
the scheduler's cycles (`happened`). What is now is read from the engine when somebody scrapes
(`gauges` and its neighbours). `catalog` names every metric.
"""
