"""The cluster autoscaler: creates nodes for unschedulable pods and removes idle nodes.

Its NodePools are Karpenter's. `plan` and `provisioning` decide without I/O; `controller` reads the
clock and writes to the API.
"""
