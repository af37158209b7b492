"""The life of a Workload as pure functions on its JSON:
what holds of it, how it changes, what to do next.

`reconcile.decide` is the entry point of the workload controller; the scheduler and the job
controllers use `transitions`.

Invariant: nothing here reads a clock or an API; time and neighbours arrive as arguments.
"""
