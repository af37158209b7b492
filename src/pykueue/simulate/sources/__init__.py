"""Where the jobs of a simulation come from: manifests, tables, traces, a generator, a cluster.

Every reader gives `JobRow`s or Workload objects; `JobCollector` turns both into a `JobTable`.
Whatever is wrong in a file is a `SourceError` with file, line, column and remedy.

Invariant (tests/simulate/test_sources.py): a file is read whole or refused with its place.
"""
