"""Operators of job frameworks.

A small operator is one module; `ray` and `kubeflow`, with several kinds, are packages. Each has a
`sync(owner, owned, now)`, a generator of writes without I/O; `local_cluster` lists them.
"""
