"""MultiKueue: Workloads of this cluster, the manager, run on other clusters, the workers.

`clusters` connects to the workers, `checks` keeps the conditions of AdmissionChecks, `dispatch`
nominates workers, and `controller` copies Workloads and jobs and brings their status back.

Invariant: `adapters`, `decide` and `kubeconfig` are pure; a job is created on one worker only, the
one whose copy of the Workload is admitted (`tests/multikueue/test_campaign.py`).
"""
