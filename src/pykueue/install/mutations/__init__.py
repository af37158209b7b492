"""What Kueue's webhooks set in an object, as CEL for a cluster without webhooks.

The embedded API and the webhook server use the same defaults in Python, in `api.rules`;
`tests/install` compares both on the same objects.
"""
