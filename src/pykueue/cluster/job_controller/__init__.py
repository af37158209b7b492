"""The batch/v1 Job controller: creates and deletes pods, and counts every finished pod once.

Invariant: `sync` does no I/O. A pod enters `status.uncountedTerminatedPods` before it loses its
tracking finalizer, and leaves it in the write that increments a counter, so a crash between any
two writes neither loses a pod nor counts it twice (tests/cluster/job_controller/test_crashes.py).
"""
