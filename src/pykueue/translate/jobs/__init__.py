"""Job frameworks: how each kind of job describes its pod sets, is suspended, runs and finishes.

One module a kind.

A framework is a value (`framework.JobFramework`): the paths of its pod templates and a few
predicates on its JSON. `controllers.jobs` handles every kind of job through these values.
`registry.FRAMEWORKS` lists them.

Invariant: pure functions on JSON; nothing here calls an API.
"""
