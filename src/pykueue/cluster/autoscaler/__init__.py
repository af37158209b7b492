"""Node pools: nodes that come when pods find no place and go when they are idle, as Karpenter's and GKE's do.

Invariant: what a pool may make, and what it makes for which pods, is decided purely; time and the API stay in the shell.
"""
