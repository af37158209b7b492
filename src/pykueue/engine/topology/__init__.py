"""Topology-aware scheduling: on which nodes, or other topology domains, the pods of a workload
run.

Invariant: a placement never puts more pods into a domain than fit on its nodes
(`tests/engine/test_topology_placement.py`).
"""
