"""The policies of `pykueue manifests` work on the embedded API as on a cluster."""

from tests.apiserver.api_requests import create

from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Settings
from pykueue.install import policies

QUEUE = "kueue.x-k8s.io/queue-name"


def job(name, **labels):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


async def test_they_suspend_queued_jobs_and_leave_others_alone(api):
    """Kueue's own rules are off, so that only the policies can suspend the job."""
    api.core.context.settings = Settings(frameworks=frozenset())
    for part in policies.of_job_kind(job_kinds.BATCH_JOB, Settings()):
        answer = await create(api, part)
        assert answer.code == 201, answer.message
    assert (await create(api, job("queued", **{QUEUE: "q"}))).body["spec"]["suspend"] is True
    assert (await create(api, job("plain"))).body["spec"]["suspend"] is False
    faulty = await create(api, job("faulty", **{QUEUE: "not/a/queue/name"}))
    assert faulty.code == 422
