"""Prometheus metrics with Kueue's names, labels and buckets.

`collector` counts changes of objects and scheduling cycles. `gauges` and `local_queue_gauges` read
the engine at each scrape. `catalog` lists every metric.
"""
