"""Pods and pod groups that are queued by themselves."""
