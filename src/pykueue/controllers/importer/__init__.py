"""Kueue's importer: running pods get a queue, and a Workload that is admitted already.

`mapping` chooses the queue of a pod, `checks` builds its Workload and the admission. Both are
without I/O; `pykueue import` reads and writes.
"""
