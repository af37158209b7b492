"""The controller runtime: object cache, work queue, writes, executor, event recorder."""
