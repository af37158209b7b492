"""`pykueue demo`: run the scenario of an example on a temporary local cluster and show it.

A scenario has steps (`scenario.py`); the runner performs them on a `DemoCluster`, which keeps a
`DemoState`; a view prints that state, live (`live_view.py`) or as lines (`PlainView`).
"""
