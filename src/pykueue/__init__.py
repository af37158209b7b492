"""pykueue: Kueue, the Kubernetes job-queueing system, in Python.

The folders are the architecture; ARCHITECTURE.md draws it. Imports go downwards only:
cli → simulate → controllers, apiserver, node → kube → translate → engine, api.
"""

__version__ = "0.1.0"
