"""The kubelet: runs the pods bound to the cluster's nodes on a runtime and writes their status.

`kubelet.Kubelet` has one `PodWorker` for each pod. A `run.PodRun` decides without I/O which
containers to start or stop; the worker calls the runtime, and
`runtimes.process.ProcessRuntime.start` is where a container's process starts.

Invariant: a container attempt is started at most once, also across a crash of pykueue
(tests/cluster/runtimes/test_process.py).
"""
