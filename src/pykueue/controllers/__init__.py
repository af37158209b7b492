"""Keep objects and engine in step: scheduler, workload, queues, flavors, checks; jobs/ has one file a framework.

Invariant: no quota arithmetic here.
"""
