"""What users write: types of every kind, quantities, defaults, validation, conversion, schemas.

`objects`, `conditions`, `times`, `selectors` and `resources` read well-formed objects for all
other packages.

Invariant: imports no other package of ours. The structs are the one source of schemas and CRDs;
`rules` and `admission` are the one source of admission in every way of running.
"""
