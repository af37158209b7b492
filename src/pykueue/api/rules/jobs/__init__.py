"""What Kueue's webhooks do to jobs: suspend them at creation, and refuse what would escape the queue.

`frameworks` is the table of job kinds, `management` decides who is managed, `generic` holds the rules of every job,
`topology` those of placement annotations; the other modules add what is special to one family of kinds.

Invariant: a kind whose integration is not enabled is left alone.
"""
