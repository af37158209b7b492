"""Where pods go: topology-aware placement on domains of nodes. Pure, like the rest of the engine.

Invariant: a placement never puts more pods into a domain than its nodes have room for.
"""
