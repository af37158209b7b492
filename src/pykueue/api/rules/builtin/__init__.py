"""What the API server itself does to Kubernetes' own kinds: stored defaults and validation.

Only the kinds that users of queues meet are here: Jobs, pods, pod templates and a few others.
"""
