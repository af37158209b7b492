"""Admission plugins: what Kubernetes' API server refuses or warns of besides the rules of a kind.

Each module is one plugin (`admission.AdmissionPlugin`). A plugin runs inside the write, against
the newest versions, so nothing can change between its decision and the write. `policies` of
`context.Context` apply to every writer; `embedded` adds those that need users and roles.
"""
