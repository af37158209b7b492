"""Kinds that users add at run time by CustomResourceDefinitions.

**Invariant:** a kind that we build in stays ours, whatever definition is applied for it.
"""
