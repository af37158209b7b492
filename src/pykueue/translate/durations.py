"""Durations of the Configuration, for those who hand integers to the engine."""

from pykueue.api.durations import to_ns

__all__ = ["to_ns"]
