"""Virtual time: drives the engine from a trace."""
