"""Flavors: which ResourceFlavor serves which resource of which pod set."""
