"""The engine alone in virtual time: a discrete-event simulation of queues and jobs.

No API server, no controllers and no pods: the driver feeds the engine with events, and answers its
decisions as the controllers would. So a million jobs run in minutes. Three steps:

    world = World.from_objects(objects, configuration)      # ClusterQueues, flavors, nodes, …
    jobs = JobTable()
    template = jobs.add_template(world.workload_value(workload))    # a Workload object
    jobs.add(template, submit_ns=0, run_ns=3600 * SECOND_NS, name="train")
    simulation = Simulation(world, jobs)
    simulation.run()                                        # until nothing can happen any more
    simulation.run(until_ns=…)                              # or until a time
    simulation.run_until_started("team-a/train")            # or until a job starts

A running cluster is forked: `World.forked(engine)` copies the engine of a scheduler, or
`World.from_objects` is filled from the lists of a cluster, Workloads included. Then
`Simulation.adopt` takes over each Workload of the engine with the time that it will still run.
`World.put` and `World.delete` also change queues and nodes while a simulation runs, and
`Simulation.at` calls a function at a time. An `Observer` hears of every step of every job.

Invariant (tests/simulate/test_engine_driver.py): the same input gives the same run.
"""
