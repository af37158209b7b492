"""The lifecycle of a Workload as functions on its JSON: predicates, transitions and decisions.

`decide.decide` is the reconcile of the workload controller. The scheduler and the job controllers
use `transitions`.

Invariant: only `controller` reads a clock or an API; the other modules are pure.
"""
