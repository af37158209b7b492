"""Jobs of a manager run on one of its workers."""

from tests.multikueue.fleet import job, play

from pykueue.api import conditions, resources


def test_a_job_runs_on_one_worker_and_its_status_comes_back():
    async def story(fleet):
        await fleet.manager.client.create(resources.JOB, job("sample"), "default")
        await fleet.until(fleet.is_finished, "sample")
        workload = await fleet.workload_of("sample")
        assert conditions.is_true(workload, "Finished")
        assert fleet.manager.started == []
        assert sum(len(worker.started) for worker in fleet.workers.values()) == 1

        async def is_clean():
            return not await fleet.copies("sample")

        await fleet.until(is_clean)

    play(story)
