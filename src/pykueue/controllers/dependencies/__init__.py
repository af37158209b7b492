"""Jobs that wait for other Jobs: `pykueue submit --after JOB`."""
