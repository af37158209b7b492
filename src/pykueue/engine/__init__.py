"""The scheduling engine: events in, decisions out. No clock, no I/O, no randomness, no logging, no
asyncio.

Others use `engine`, `events`, `decisions`, `values`, `reasons`, `policy` and `view`; the rest is
private (import-linter).

Invariant: the same events give the same decisions, byte for byte
(`tests/engine/test_determinism.py`). Time arrives inside events. Amounts are integers; weights and
shares are floats, as in Kueue. After every event the usage equals the sum of the reservations
(`invariants.check`, at the teardown of every engine test).
"""
