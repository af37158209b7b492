"""The embedded cluster: the components of Kubernetes that run Jobs and Pods in `pykueue up`.

Controllers: `job_controller`, `cron_job_controller`, `apps`, `pod_garbage_collector`, and
`operators` of job frameworks. Nodes: `scheduler`, `autoscaler`, `kubelet` with its `runtimes`.
`local_cluster` starts all of them.

Invariant: reads no quota and no Workload. It sees Jobs, Pods and Nodes, as a real cluster would.
One exception: the autoscaler reads ResourceFlavors to warn of node labels that no NodePool can
create (`autoscaler.pool.flavor_mismatch`). import-linter checks that it imports neither the engine
nor the controllers ("The cluster knows no quota").
"""
