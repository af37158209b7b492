"""The rules that Kueue's webhooks and the API server apply to a write: one module a kind.

Each module gives a `default` (a `scheme.Defaulter`) and a `validate` (a `scheme.Validator`); `rules.table` says which
kind obeys which. Rules work on plain objects in the storage version, ask the cluster only through `Request.lookup`,
and never raise because of what a user wrote: a part of the wrong type reads as absent, since the schema reports it.
"""
