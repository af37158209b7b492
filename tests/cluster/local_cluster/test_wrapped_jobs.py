"""AppWrappers and SparkApplications in a local cluster: their operators run their pods."""

from pykueue.api import resources

CONTAINER = {"name": "c", "image": "local", "command": ["sleep", "0"]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "inner"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}},
}


async def test_a_wrapped_job_runs_and_the_wrapper_succeeds(start_cluster):
    local_cluster = await start_cluster("simulated")
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrap", "namespace": "default"},
        "spec": {"components": [{"template": JOB}]},
    }
    await local_cluster.client.create(resources.APP_WRAPPER, wrapper, "default")
    await local_cluster.until(
        resources.APP_WRAPPER, "wrap", lambda obj: obj.get("status", {}).get("phase") == "Succeeded", "default"
    )


async def test_a_spark_application_completes_with_its_driver(start_cluster):
    local_cluster = await start_cluster("simulated")
    application = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "pi", "namespace": "default"},
        "spec": {
            "type": "Python",
            "sparkVersion": "4.0.0",
            "mode": "cluster",
            "mainApplicationFile": "local:///pi.py",
            "driver": {"annotations": {"pykueue.dev/runtime": "200ms"}},
            "executor": {"instances": 1},
        },
    }
    await local_cluster.client.create(resources.SPARK_APPLICATION, application, "default")
    await local_cluster.until(
        resources.SPARK_APPLICATION,
        "pi",
        lambda obj: obj.get("status", {}).get("applicationState", {}).get("state") == "COMPLETED",
        "default",
    )
