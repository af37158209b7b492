"""What the cluster remembers: one log of revisions, an index of current objects, and recent history for watches.

Invariant: nothing is acknowledged, shown or published before the log has it for good, and a revision never goes back.
"""
