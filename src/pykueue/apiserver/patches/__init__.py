"""Patches of all four types, and the bookkeeping of who owns which field.

Invariant: pure functions on JSON values. None changes its arguments; what did not change is shared, not copied.
"""
