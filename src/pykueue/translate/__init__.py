"""API objects to engine values and back.

Invariant: the only package that imports both `api` and `engine`.
"""
