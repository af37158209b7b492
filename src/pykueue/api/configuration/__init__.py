"""Kueue's Configuration (`config.kueue.x-k8s.io`): its types and defaults, where it is found, and what is wrong with it.

    types      every field of v1beta2 with its default, and our own extensions
    versions   v1beta1 to v1beta2
    sources    a Configuration by itself, in a ConfigMap, or inside Helm values
    checks     the rules that no type can say
    loading    from a file to one frozen value, or to every fault at once

Invariant: whoever holds a `types.Configuration` holds a valid one.
"""
