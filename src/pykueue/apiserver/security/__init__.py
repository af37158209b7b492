"""Who may ask, and for what: certificates, tokens, roles and the reviews that tell users about them.

**Invariant:** nothing here opens a port; a request without a known token is nobody, and nobody may do nothing.
"""
