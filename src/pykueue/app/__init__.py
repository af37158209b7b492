"""The long-running processes: `pykueue up` and `pykueue controller`, and the servers inside them.

`up.py` and `controller.py` put a process together; everything else here is a part of one of them.
**Invariant:** no decision about jobs is made here; `cli` parses options, `app` starts and stops.
"""
