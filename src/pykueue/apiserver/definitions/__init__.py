"""Kinds that users add at run time with CustomResourceDefinitions.

**Invariant:** a definition of a kind that pykueue builds in is stored but does not replace that
kind (`tests/e2e/test_definitions.py`).
"""
