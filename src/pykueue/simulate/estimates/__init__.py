"""When a pending Workload will start: an estimate with an error bar, or why nobody can know.

`run_times` learns how long jobs run from those that finished, `starts` plays what is queued and
running forward several times with run times drawn from them, `live` does that for a cluster
(`pykueue explain`), and `scoring` compares estimates with what then happened in a simulation
(`pykueue simulate --score-estimates`).

Invariant (tests/simulate/test_estimates.py): the same input gives the same estimate.
"""
