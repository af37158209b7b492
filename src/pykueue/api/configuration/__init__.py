"""Kueue's Configuration (`config.kueue.x-k8s.io`): types, defaults, sources and validation.

    types      every field of v1beta2 with its default, and our own extensions
    versions   v1beta1 to v1beta2
    sources    a Configuration by itself, in a ConfigMap, or inside Helm values
    checks     the rules that types cannot express
    loading    from a file to one frozen value, or to all faults

Invariant: every `types.Configuration` that `loading` returns is valid.
"""
