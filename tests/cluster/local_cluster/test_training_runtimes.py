from pykueue.api import conditions, resources
from pykueue.cluster.operators import training_runtimes


async def test_a_train_job_runs_with_a_runtime_of_the_installation(start_cluster):
    local_cluster = await start_cluster("simulated")
    await training_runtimes.ensure(local_cluster.client)
    node = {"command": ["sleep", "0"], "numNodes": 2}
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "fit", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": node},
    }
    await local_cluster.client.create(resources.TRAIN_JOB, job, "default")
    await local_cluster.until(resources.TRAIN_JOB, "fit", lambda obj: conditions.is_true(obj, "Complete"), "default")


async def test_a_runtime_that_was_changed_stays(start_cluster):
    client = (await start_cluster("simulated")).client
    await training_runtimes.ensure(client)
    kind, name = resources.CLUSTER_TRAINING_RUNTIME, "torch-distributed"
    await client.patch(kind, name, "", {"spec": {"mlPolicy": {"numNodes": 4}}})
    await training_runtimes.ensure(client)
    assert (await client.get(kind, name))["spec"]["mlPolicy"]["numNodes"] == 4
