"""What Kueue does with jobs of any kind: creates a Workload, starts, stops and finishes the job.

`decide.plan` is a pure function of a job, its Workloads and the policy, and returns a plan of
writes. `controller` reads the objects, calls `decide.plan` and applies the plan. `translate.jobs`
describes the kinds of jobs.

Invariant: no code here names a kind of job.
"""
