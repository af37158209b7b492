"""Job frameworks: how each kind of job shows its pod sets, is suspended, runs, finishes. One file a framework.

A framework is a value (`framework.Framework`): where its templates stand and a few predicates on its JSON. What Kueue
does with any job (`controllers.jobs`) is written once, on that contract. `registry.frameworks()` lists them.

Invariant: pure functions on JSON; nothing here talks to an API.
"""
