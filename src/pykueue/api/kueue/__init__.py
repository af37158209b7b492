"""The kinds of `kueue.x-k8s.io`.

Invariant: v1beta2 is written out as structs, because that is the version which is stored and computed with; v1beta1 is stated as its
differences (`v1beta1`) and converted (`conversion`), so that no rule is written twice.
"""
