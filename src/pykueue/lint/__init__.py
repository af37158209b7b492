"""Lint: what is wrong with a set of queues, each finding with an example that the engine plays.

`checks.findings(queue_set)` runs every rule of `rules/`. A rule compares values of the set, or
plays a small world (`world.py`): the queues of the set, jobs that the rule makes up, and the
engine that decides about them. Called by `pykueue lint`.
"""
