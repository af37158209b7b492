"""What users write: types of every kind, quantities, defaults, validation, conversion, schemas.

Invariant: imports nothing of ours, and no rule is stated twice. The structs are the one source of schemas and CRDs;
the rules beside them are the one source of validation in every way of running.
"""
