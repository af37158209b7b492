"""What Kueue's webhooks set in an object, as CEL for a cluster without webhooks.

The same defaults stand in Python in `api.rules`, for the embedded API and the webhook server; `tests/install` puts the
same objects to both.
"""
