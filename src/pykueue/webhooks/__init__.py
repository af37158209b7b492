"""Admission webhooks for clusters that cannot do it by policy: reviews answered by the rules of `api.rules`, over TLS.

Certificates are made here and kept in a Secret, so that replicas share one and nobody has to renew it by hand.

Invariant: no rule of its own; an object is refused and changed exactly as the embedded API does it.
"""
