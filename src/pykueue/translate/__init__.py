"""Converts API objects to engine values, and engine decisions to statuses, events and texts.

Invariant: pure functions; nothing here calls an API or reads a clock.
"""
