"""The node agent: runs the pods bound to this room's nodes on a runtime and reports their status.

Invariant: a container attempt is started at most once, also across a crash of pykueue; what `PodRun` decides is pure.
"""
