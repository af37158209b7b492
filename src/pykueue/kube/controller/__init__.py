"""The controller runtime: object cache, writes, executor, work queue, event recorder."""
