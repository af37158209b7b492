"""The CronJob controller: reads schedules, and creates a Job whenever one is due."""
