"""pykueue for Python programs and tests.

`Cluster` is a whole cluster in this process, in virtual time; `AsyncCluster` is the same for
coroutines; `connect` returns the cluster of a kubeconfig, in real time. All have the operations of
`operations.Operations`.
"""

from pykueue.library.async_cluster import AsyncCluster
from pykueue.library.operations import ClusterError, JobExplanation, WaitError
from pykueue.library.remote import ConnectedCluster, connect
from pykueue.library.virtual import Cluster

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "ConnectedCluster", "JobExplanation", "WaitError", "connect"]
