"""What a simulation tells: waits, usage, preemptions and fairness, as text, JSON, CSV and HTML.

`Outcomes` listens to a run, `figures.report` turns it into plain data, and one module for each
format prints that data.

Invariant (tests/simulate/test_report.py): the same run gives the same report, byte for byte.
"""
