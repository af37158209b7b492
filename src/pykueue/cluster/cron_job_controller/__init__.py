"""CronJobs: when a schedule is due, and the Jobs made for it."""
