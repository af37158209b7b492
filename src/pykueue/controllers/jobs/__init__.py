"""What Kueue does with a job, whatever its kind: gives it a Workload, starts it, stops it, declares it finished.

`decide.plan` is pure: a job, its Workloads and the policy in; actions out. `job_controller` reads, calls it and applies.
Kinds themselves are described in `translate.jobs`.

Invariant: no kind is known by name here, except pods, which are jobs of their own sort (`pods`).
"""
