"""The story player: it plays stories over the Kubernetes API and records what the API shows.

It works with any kubeconfig, so the same stories run on Kueue and on pykueue. It imports nothing of
pykueue, so that a mistake of ours cannot hide in both. See README.md for the formats.
"""
