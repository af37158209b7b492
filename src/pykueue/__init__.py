"""pykueue: Kueue, the Kubernetes job-queueing system, in Python.

`Cluster`, `AsyncCluster` and `connect` are the interface for Python programs and tests; see
docs/ci.md. The folders are the architecture; ARCHITECTURE.md draws it. Imports go downwards only:
cli → simulate → controllers, apiserver, node → kube → translate → engine, api.
"""

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["AsyncCluster", "Cluster", "ClusterError", "ConnectedCluster", "JobExplanation", "WaitError", "connect"]


def __getattr__(name: str) -> Any:
    """Import the library when it is used, so that commands start without it."""
    if name in __all__:
        return getattr(importlib.import_module("pykueue.library"), name)
    raise AttributeError(f"module 'pykueue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
