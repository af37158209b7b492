"""Replays recorded decisions of Kueue v0.19.2 and compares the results.

`corpus` reads recordings, one module for each family replays them, `differences` compares, and
`session` runs files and counts.

Invariant: a replay never adapts its result to the recording; where a replay models the recorder,
the code says so.
"""
