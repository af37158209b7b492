"""Keep objects and engine in step: one folder for each kind, with `controller.py` and `decide.py`.

`system.py` is the table of all controllers. Invariant: no quota arithmetic; the contracts of
import-linter keep the engine's state out of reach.
"""
