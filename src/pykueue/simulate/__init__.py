"""The whole system in virtual time: one process, one event loop, and every order and fault drawn
from a seed.

Invariant (tests/simulation/test_determinism.py): one seed gives exactly one run.
"""
