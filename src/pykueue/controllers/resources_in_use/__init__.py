"""The finalizer that keeps flavors, checks and topologies while something refers to them."""
