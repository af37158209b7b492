"""Where the pure syncs of the machine room meet the API: views of it, performing writes, and controllers that join both.

Invariant: a controller decides only on what includes its own writes; a stale cache never makes it act twice.
"""
