"""The kinds of Kubernetes itself and of the job frameworks, as far as an embedded cluster serves them.

Invariant: field names are complete at every level that has any, so that a misspelt one is caught; what lies deeper is carried as it is.
"""
