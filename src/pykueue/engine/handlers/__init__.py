"""Handlers: how each event changes the engine's state. `Engine.handle` calls them."""
