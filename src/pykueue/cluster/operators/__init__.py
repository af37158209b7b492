"""Operators of job frameworks, one module or package each."""
