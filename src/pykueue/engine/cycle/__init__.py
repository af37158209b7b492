"""The scheduling cycle: `cycle.py` is the list of its steps, the other modules are the steps."""
