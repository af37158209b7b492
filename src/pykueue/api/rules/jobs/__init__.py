"""Kueue's webhooks for jobs: they suspend jobs at creation and refuse ways around the queue.

`job_kinds` is the table of job kinds, `management` decides which jobs are managed, `generic` holds
the rules of all job kinds, `topology` those of the topology annotations; the other modules add the
rules of one kind each.

Invariant: an object whose integration is disabled is neither changed nor refused.
"""
