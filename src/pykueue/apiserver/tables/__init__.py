"""What `kubectl get` prints: the Table of a list, computed here because the server, not the client, knows the columns.

**Invariant:** pure functions of objects and a given time; nothing here reads the store or the clock.
"""
