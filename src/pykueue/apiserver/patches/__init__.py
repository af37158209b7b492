"""The four types of patches, and `managedFields`: which manager owns which field.

Invariant: these are pure functions on JSON values. They do not change their arguments; results
share unchanged parts with the arguments.
"""
