"""What Kueue's webhooks refuse, as CEL for a cluster without webhooks: one table for each kind.

The embedded API and the webhook server use the same rules in Python, in the module of the same
name in `api.rules`; `tests/install` compares both on the same objects. A rule of a kind's schema
is not repeated here. `install.policies` turns the tables into policies.
"""
