"""The admission rules of Kueue's webhooks and of the API server: one module for each kind.

A module has `default` (a `scheme.Defaulter`) and `validate` (a `scheme.Validator`); `rules.table`
says which kind obeys which rules. Rules work on plain objects in the storage version and look up
other objects only through `AdmissionRequest.lookup`. They never raise because of what a user
wrote: a value of the wrong type reads as absent, because the schema reports it.

Rules of the same name in CEL, for clusters without our webhooks: `install.validations` and
`install.mutations`.
"""
