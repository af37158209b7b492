"""The kinds of `kueue.x-k8s.io`.

Invariant: v1beta2, the storage version, is written out as structs. v1beta1 is stated as its
differences (`v1beta1`) and converted (`conversion`), so that no rule is written twice.
"""
