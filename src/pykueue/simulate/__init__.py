"""Virtual time, in two ways.

`engine_driver` runs the engine alone, for a million jobs. The modules of this package run the
whole system: one process, one event loop, and every order and fault drawn from a seed.

Invariant (tests/simulation/test_determinism.py): one seed gives exactly one run.
"""
