"""The scheduler: feeds the engine with events and writes what it decides."""
