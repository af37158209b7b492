"""Single pods and pod groups as jobs."""
