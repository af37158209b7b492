from pykueue.library import AsyncCluster as AsyncCluster
from pykueue.library import Cluster as Cluster
from pykueue.library import ClusterError as ClusterError
from pykueue.library import ConnectedCluster as ConnectedCluster
from pykueue.library import JobExplanation as JobExplanation
from pykueue.library import WaitError as WaitError
from pykueue.library import connect as connect

__version__: str
