"""What Kueue's webhooks refuse, as CEL for a cluster without webhooks: a table of rules for each kind.

The same rules stand in Python in `api.rules`, for the embedded API; `tests/install` puts the same objects to both. A rule that is
in the schema of a kind is not repeated here. Each module writes the tables of one family of kinds; `install.validation` turns
tables into policies.
"""
