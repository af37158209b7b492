"""The kinds of Kubernetes itself and of the job frameworks that an embedded cluster serves.

Invariant: where a type names fields, it names all of them, so that a misspelt field is an error.
Fields of type `any` are not checked.
"""
