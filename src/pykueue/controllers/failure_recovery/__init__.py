"""Failure recovery: ends terminating pods on unreachable nodes, whose kubelet cannot do it."""
