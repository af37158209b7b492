"""The embedded machine room: Job controller, operators, placement, node pools, pod runtimes.

Invariant: knows nothing of quota. It sees Jobs, Pods and Nodes, as a real cluster would.
"""
