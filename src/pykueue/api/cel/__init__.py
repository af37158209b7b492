"""CEL, the expression language of Kubernetes: rules, admission policies, device selectors.

`rules` pairs the rules of our own kinds with their Python checks, and imports nothing else. The
interpreter is loaded with the first expression: `parser` reads a text, `checker` finds its types,
`planner` makes Python closures, and `environment` puts them together with the libraries.
"""
