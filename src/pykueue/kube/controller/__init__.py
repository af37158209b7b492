"""The controller runtime: object cache, work queue, plans of writes, their executor, event recorder."""
