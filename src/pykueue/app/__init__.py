"""Processes put together: what `pykueue up` and `pykueue controller` consist of."""
