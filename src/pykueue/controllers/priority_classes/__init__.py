"""WorkloadPriorityClasses: a changed value is copied to the Workloads that name the class."""
