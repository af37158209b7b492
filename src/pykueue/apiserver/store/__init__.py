"""The store: a log of revisions, the current objects, and recent history for watches.

**Invariant:** nothing is acknowledged, read or published before the log has committed it
(`tests/apiserver/store/test_durability.py`, which kills the process at random), and a revision is
never reused, not even after `salvage` (`tests/apiserver/store/test_salvage.py`).
"""
