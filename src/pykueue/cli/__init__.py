"""The commands, one module each, and what several of them share.

Shared: `options`, `connection` (access to a cluster), `output` (tables, JSON, YAML), `kinds`
(short names), `discovery` (resource types of the cluster), `completion` (of the shell).
**Invariant:** commands only; a command imports what it needs when it runs, so that each starts
fast.
"""
