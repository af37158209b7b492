"""Recorded behaviour of Kueue v0.19.2, run again here and compared.

`corpus` reads recordings, `suites` knows who can replay which, one module a family replays them, `differences` says what is
not the same, `session` runs files and counts.

Invariant: a replay judges; it never adapts an answer to what was recorded.
"""
