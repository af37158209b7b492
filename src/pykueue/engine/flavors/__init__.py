"""Flavor assignment: which ResourceFlavor every resource of every pod set gets."""
