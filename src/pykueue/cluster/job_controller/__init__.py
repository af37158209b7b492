"""The batch/v1 Job controller: pods up and down, every finished pod counted once, conditions in Kubernetes' words.

Invariant: `sync` is pure. A pod enters `status.uncountedTerminatedPods` before it loses its tracking finalizer and
leaves it together with the increment of a counter, so a crash between any two writes neither loses nor doubles a pod.
"""
