"""Conditions of objects that ask for what pykueue does not do."""
