"""What the API server itself does to Kubernetes' own kinds: defaults as they are stored, and the refusals that matter.

Only what users of queues meet is here: Jobs, pods and their templates, and the few objects around them.
"""
