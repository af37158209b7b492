"""Admission webhooks, for clusters whose API server cannot run our admission policies.

Reviews are answered by the rules of `api.rules`, over TLS. The certificate is kept in a Secret, so
that all replicas share it, and it is renewed without an administrator.

Invariant: the webhooks have no rule of their own. They refuse and change an object exactly as the
embedded API does.
"""
