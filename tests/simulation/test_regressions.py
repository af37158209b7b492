"""What campaigns found, each told as a short story of its own."""

import asyncio

import pytest
from tests.simulation.manifests import EXIT_CODE, RUNTIME, admitted, job, running_pods, set_up

from pykueue.api import conditions, resources
from pykueue.api.errors import ApiError
from pykueue.kube.client import DeleteOptions
from pykueue.simulate import faults, invariants
from pykueue.simulate import profile as profiles
from pykueue.simulate import system as simulated_system
from pykueue.simulate.campaign import Campaign
from pykueue.simulate.faults import FaultRates

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kubelet_repeats_writes_that_fail(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        campaign.system.faults.is_calm = False
        await client.create(resources.JOB, job("job", seconds="5", parallelism=3, completions=3), "default")
        await asyncio.sleep(60)
        await campaign.rest()
        await campaign.check_rest()
        assert conditions.is_true(await client.get(resources.JOB, "job", "default"), "Complete")

    Campaign(seed, rates=FaultRates(server_error=0.4)).run(story)


@pytest.mark.parametrize("seed", range(8))
def test_a_queue_status_forgets_an_admission_that_came_too_late(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        campaign.system.faults.is_calm = False
        for name in ("one", "two", "three"):
            await client.create(resources.JOB, job(name), "default")
            await asyncio.sleep(3)
            await client.delete(resources.JOB, name, "default", DeleteOptions(propagation_policy="Background"))
        await campaign.rest()
        await campaign.check_rest()

    Campaign(seed, rates=FaultRates(very_slow=1.0)).run(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_status_of_a_queue_that_was_written_late_is_corrected(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        late = {"status": {"reservingWorkloads": 4, "pendingWorkloads": 2}}
        queues = ((resources.CLUSTER_QUEUE, ""), (resources.LOCAL_QUEUE, "default"))
        for resource, namespace in queues:
            await client.patch(resource, "queue", namespace, late, subresource="status")
        await campaign.rest()
        for resource, namespace in queues:
            status = (await client.get(resource, "queue", namespace))["status"]
            assert (status["reservingWorkloads"], status["pendingWorkloads"]) == (0, 0)

    Campaign(seed).run(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_workload_that_was_created_late_has_the_value_of_its_class(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        resource = resources.WORKLOAD_PRIORITY_CLASS
        priority_class = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "changing"}}
        await client.create(resource, priority_class | {"value": 100}, "")
        await campaign.rest()
        await client.patch(resource, "changing", "", {"value": 5})
        await campaign.rest()
        await client.create(resources.WORKLOAD, late_workload("late", "changing", 100), "default")
        await campaign.rest()
        assert (await client.get(resources.WORKLOAD, "late", "default"))["spec"]["priority"] == 5

    Campaign(seed).run(story)


def late_workload(name, priority_class, priority):
    containers = [{"name": "main", "image": "image", "resources": {"requests": {"cpu": "1"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": priority_class}
    return {
        "apiVersion": resources.WORKLOAD.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queueName": "queue",
            "priorityClassRef": reference,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_of_a_job_that_was_orphaned_while_its_controller_was_down_can_be_deleted(seed):
    async def story(campaign):
        system = campaign.system
        await set_up(campaign)
        await system.client.create(resources.JOB, job("job"), "default")
        await campaign.rest(30)
        [pod] = await running_pods(system)
        system.cluster.kill()
        options = DeleteOptions(propagation_policy="Orphan")
        await system.client.delete(resources.JOB, "job", "default", options)
        await asyncio.sleep(5)
        system.cluster.start()
        await campaign.rest(30)
        await system.client.delete(resources.POD, pod, "default")
        await campaign.rest(30)
        assert invariants.leftovers(system) == []

    Campaign(seed).run(story)


@pytest.mark.parametrize("seed", range(12))
def test_a_job_that_loses_its_pods_to_an_orphaning_deletion_creates_no_others(seed):
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        names = ("one", "two", "three", "four")
        for name in names:
            await client.create(resources.JOB, job(name), "default")
        campaign.system.faults.is_calm = False
        while await _pods(client) < len(names):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        for name in names:
            await client.delete(resources.JOB, name, "default", DeleteOptions(propagation_policy="Orphan"))
        await asyncio.sleep(10)
        await campaign.rest(30)
        assert await _pods(client) == len(names)

    Campaign(seed, rates=FaultRates(slow=1.0, very_slow=0.1)).run(story)


async def _pods(client):
    return len((await client.list(resources.POD, "default")).items)


def _pod(name, **metadata):
    container = {"name": "main", "image": "image", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def test_a_pod_group_leaves_with_its_namespace():
    """A Namespace has its finalizers in its spec; the cache took it for deleted."""

    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        await client.create(resources.NAMESPACE, {"metadata": {"name": "team"}})
        queue = {"metadata": {"name": "queue"}, "spec": {"clusterQueue": "queue"}}
        await client.create(resources.LOCAL_QUEUE, queue, "team")
        labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/pod-group-name": "group"}
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "2", RUNTIME: "until-deleted"}
        for name in ("one", "two"):
            await client.create(resources.POD, _pod(name, labels=labels, annotations=annotations), "team")
        await campaign.rest(30)
        await client.delete(resources.NAMESPACE, "team")
        await campaign.rest(60)
        assert invariants.leftovers(campaign.system) == []
        namespaces = (await client.list(resources.NAMESPACE)).items
        assert "team" not in [namespace["metadata"]["name"] for namespace in namespaces]

    Campaign(1).run(story)


def test_a_condition_that_became_true_has_no_reason_left():
    """The conditions of a pod are merged by type: what is absent from a patch stays."""

    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        pod = _pod("pod", annotations={RUNTIME: "30", EXIT_CODE: "1"})
        await client.create(resources.POD, pod, "default")
        has_failed = False
        while True:
            await asyncio.sleep(1)
            ready = conditions.find(await client.get(resources.POD, "pod", "default"), "Ready") or {}
            has_failed = has_failed or ready.get("reason") == "ContainersNotReady"
            if has_failed and ready["status"] == "True":
                break
        assert "reason" not in ready
        assert "message" not in ready

    Campaign(1).run(story)


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_pod_sets_that_alternate_between_flavors_come_to_rest(strategy):
    """As in Kueue each pod set goes on where its last scan ended, so the reason alternates from
    cycle to cycle; a write of it must not bring about the next cycle.
    """

    async def story(campaign):
        system = campaign.system
        await set_up(campaign)
        client = system.client
        await client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "spot"}})
        quotas = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "2"}]} for name in ("default", "spot")]
        groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
        patch = {"spec": {"resourceGroups": groups, "queueingStrategy": strategy}}
        await client.patch(resources.CLUSTER_QUEUE, "queue", "", patch)
        for name, count in (("one", 1), ("two", 2)):
            await client.create(resources.JOB, job(name, priority="high", parallelism=count), "default")
        await client.create(resources.JOB_SET, _job_set(), "default")
        await campaign.rest(60)
        await campaign.check_rest()
        assert await admitted(system) == 2

    Campaign(1).run(story)


def _job_set():
    template = job("template")["spec"]["template"]
    replicated = [
        {"name": name, "replicas": 1, "template": {"spec": {"template": template}}} for name in ("driver", "workers")
    ]
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    return {"metadata": {"name": "set", "labels": labels}, "spec": {"replicatedJobs": replicated}}


def test_a_pod_that_is_bound_to_a_deleted_node_is_deleted():
    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        pod = _pod("pod", finalizers=["example.com/hold"])
        await client.create(resources.POD, pod | {"spec": pod["spec"] | {"nodeName": "nowhere"}}, "default")
        await asyncio.sleep(30)
        assert not (await client.get(resources.POD, "pod", "default"))["metadata"].get("deletionTimestamp")
        await campaign.rest(60)
        assert (await client.get(resources.POD, "pod", "default"))["metadata"]["deletionTimestamp"]

    Campaign(1).run(story)


def test_a_workload_leaves_with_its_job_although_a_child_job_has_its_name():
    """The second Job belongs to a JobSet and has no Workload of its own; the first one's Workload
    was nobody's.
    """

    async def story(campaign):
        system = campaign.system
        await set_up(campaign)
        await system.client.create(resources.JOB, job("set-driver-0"), "default")
        await campaign.rest(10)
        for replica in system.replicas:
            replica.kill()
        await system.client.delete(
            resources.JOB, "set-driver-0", "default", DeleteOptions(propagation_policy="Background")
        )
        await system.client.create(resources.JOB_SET, _job_set(), "default")
        await asyncio.sleep(30)
        for replica in system.replicas:
            replica.start()
        await campaign.rest(60)
        await campaign.check_rest()
        assert await admitted(system) == 1

    Campaign(1).run(story)


def test_a_deleted_job_gets_no_other_workload_before_its_watch_shows_the_deletion(monkeypatch):
    is_late = False

    class LateWatch(faults.FaultyClient):
        async def watch(self, resource, *args, **options):
            async for event in super().watch(resource, *args, **options):
                if is_late and resource == resources.JOB:
                    await asyncio.sleep(20)
                yield event

    async def story(campaign):
        nonlocal is_late
        await set_up(campaign)
        client = campaign.system.client
        await client.create(resources.JOB, job("job", parallelism=9), "default")  # it pends
        await campaign.rest(10)
        is_late = True
        campaign.system.trace.lines.clear()
        await client.delete(resources.JOB, "job", "default", DeleteOptions(propagation_policy="Background"))
        await campaign.rest(60)
        deletions = [line for line in campaign.system.trace.lines if "delete workloads" in line]
        assert len(deletions) == 1

    monkeypatch.setattr(simulated_system, "FaultyClient", LateWatch)
    Campaign(1).run(story)


def test_a_deleted_pod_of_a_group_owns_its_workload_no_more_before_its_watch_shows_the_deletion(monkeypatch):
    """The garbage collector removed the owner, and the pod controller added it again, on and on."""
    is_late = False

    class LateWatch(faults.FaultyClient):
        async def watch(self, resource, *args, **options):
            async for event in super().watch(resource, *args, **options):
                if is_late and self._is_remote and resource == resources.POD:
                    await asyncio.sleep(20)
                yield event

    async def story(campaign):
        nonlocal is_late
        await set_up(campaign)
        client = campaign.system.client
        labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/pod-group-name": "group"}
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "2", RUNTIME: "1"}
        for name in ("one", "two"):
            await client.create(resources.POD, _pod(name, labels=labels, annotations=annotations), "default")
        await campaign.rest(10)
        is_late = True
        campaign.system.trace.lines.clear()
        await client.delete(resources.POD, "one", "default")
        await campaign.rest(60)
        writes = [line for line in campaign.system.trace.lines if "write workloads" in line]
        assert len(writes) <= 2
        workload = await client.get(resources.WORKLOAD, "group", "default")
        assert [owner["name"] for owner in workload["metadata"]["ownerReferences"]] == ["two"]

    monkeypatch.setattr(simulated_system, "FaultyClient", LateWatch)
    Campaign(1).run(story)


def test_the_workload_of_a_stateful_set_that_went_before_its_pods_came_leaves_with_it(monkeypatch):
    """The Workload was created for a StatefulSet that was deleted already: it had no pods, and
    nobody removed its finalizer.
    """

    class LateWatch(faults.FaultyClient):
        async def watch(self, resource, *args, **options):
            async for event in super().watch(resource, *args, **options):
                if self._is_remote and resource == resources.STATEFUL_SET:
                    await asyncio.sleep(5)
                yield event

    async def story(campaign):
        await set_up(campaign)
        campaign.system.cluster.kill()  # no pods
        client = campaign.system.client
        app = {"app": "server"}
        metadata = {"name": "server", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
        template = {"metadata": {"labels": app}, "spec": _pod("pod")["spec"] | {"restartPolicy": "Always"}}
        spec = {"replicas": 1, "selector": {"matchLabels": app}, "template": template}
        await client.create(resources.STATEFUL_SET, {"metadata": metadata, "spec": spec}, "default")
        await client.delete(resources.STATEFUL_SET, "server", "default")
        await campaign.rest(60)
        assert any("write workloads/default/statefulset-server" in line for line in campaign.system.trace.lines)
        assert invariants.leftovers(campaign.system) == []

    monkeypatch.setattr(simulated_system, "FaultyClient", LateWatch)
    Campaign(1).run(story)


def test_quota_whose_reservation_got_no_answer_is_not_given_twice(monkeypatch):
    """The Workload is preempted while its reservation, which took effect, is still being read."""
    has_lost_answer = False

    class LostAnswer(faults.FaultyClient):
        async def patch(self, resource, name, *args, **options):
            nonlocal has_lost_answer
            if not name.startswith("job-first"):
                return await super().patch(resource, name, *args, **options)
            if has_lost_answer:
                await asyncio.sleep(5)
            written = await super().patch(resource, name, *args, **options)
            if resource == resources.WORKLOAD and written["status"].get("admission") and not has_lost_answer:
                has_lost_answer = True
                raise ConnectionError("the answer is lost")
            return written

        async def get(self, resource, name, *args, **options):
            if name.startswith("job-first"):
                await asyncio.sleep(2)
            return await super().get(resource, name, *args, **options)

    async def story(campaign):
        await set_up(campaign)
        client = campaign.system.client
        await client.create(resources.JOB, job("first", parallelism=4), "default")
        await asyncio.sleep(1)
        await client.create(resources.JOB, job("second", parallelism=4, priority="high"), "default")
        await campaign.rest(60)  # the monitor adds up what is reserved
        assert has_lost_answer
        assert await admitted(campaign.system) == 1

    monkeypatch.setattr(simulated_system, "FaultyClient", LostAnswer)
    Campaign(1).run(story)


def test_a_pod_takes_the_place_of_one_that_was_still_ending_when_it_came():
    async def story(campaign):
        client = campaign.system.client
        queue = await client.get(resources.CLUSTER_QUEUE, "queue")
        [group] = queue["spec"]["resourceGroups"]
        flavor = group["flavors"][0] | {"name": "placed"}
        levels = [{"nodeLabel": "kubernetes.io/hostname"}]
        await client.create(resources.TOPOLOGY, {"metadata": {"name": "hosts"}, "spec": {"levels": levels}})
        spec = {"nodeLabels": {"example.com/pool": "topology"}, "topologyName": "hosts"}
        await client.create(resources.RESOURCE_FLAVOR, {"metadata": {"name": "placed"}, "spec": spec})
        patch = {"spec": {"resourceGroups": [group | {"flavors": [flavor]}]}}
        await client.patch(resources.CLUSTER_QUEUE, "queue", "", patch)
        placed = job("job")
        placed["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-unconstrained-topology"] = "true"
        placed["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 20
        await client.create(resources.JOB, placed, "default")
        await campaign.rest(30)
        [pod] = await running_pods(campaign.system)
        campaign.system.cluster.kill()  # nobody ends the pod for a while
        await client.delete(resources.POD, pod, "default")
        await client.create(resources.POD, _replacement(await client.get(resources.POD, pod, "default")), "default")
        await asyncio.sleep(10)
        campaign.system.cluster.start()
        await campaign.rest(60)
        assert await running_pods(campaign.system) == ["replacement"]

    async def play(campaign):
        await set_up(campaign)
        await story(campaign)

    profile = profiles.Profile(topology=True, nodes=profiles.topology_nodes())
    Campaign(1, profile=profile).run(play)


def _replacement(pod):
    """The pod that the Job controller creates in the place of another one."""
    names = ("namespace", "labels", "annotations", "ownerReferences", "finalizers")
    metadata = {name: pod["metadata"][name] for name in names if name in pod["metadata"]}
    spec = {name: value for name, value in pod["spec"].items() if name not in ("nodeName", "nodeSelector")}
    gate = {"name": "kueue.x-k8s.io/topology"}
    spec |= {"schedulingGates": [gate], "nodeSelector": {"example.com/pool": "topology"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | {"name": "replacement"}, "spec": spec}


async def _set_up_waiting(campaign):
    """The first Job has waited for quota and gets it now.

    Its reason to wait will be the same again, so nobody writes it a second time.
    """
    await set_up(campaign)
    client = campaign.system.client
    await client.create(resources.JOB, job("before", parallelism=4), "default")
    await asyncio.sleep(1)
    await client.create(resources.JOB, job("first", parallelism=4), "default")
    await campaign.rest(10)
    await client.delete(resources.JOB, "before", "default", DeleteOptions(propagation_policy="Background"))
    await asyncio.sleep(0.5)


def _is_reservation(name, patch):
    return name.startswith("job-first") and "admission" in (patch.get("status") or {})


@pytest.mark.parametrize("refusal", [429, 403, 503])
def test_quota_is_not_given_again_before_a_late_reservation_can_have_no_effect(monkeypatch, refusal):
    """The reservation is on its way while its sender reads the old state and is refused."""
    late_until = None

    class LateWrite(faults.FaultyClient):
        async def patch(self, resource, name, namespace, patch, **options):
            nonlocal late_until
            now = asyncio.get_running_loop().time()
            if not _is_reservation(name, patch) or now > (late_until or now):
                return await super().patch(resource, name, namespace, patch, **options)
            if late_until is not None:
                raise ApiError(refusal, "Refused", "not now")
            late_until = now + 20
            late = lambda client: client.patch(resource, name, namespace, patch, **options)  # noqa: E731
            self._connection.send(late, 15)
            raise TimeoutError("no answer in time")

    async def story(campaign):
        await _set_up_waiting(campaign)
        client = campaign.system.client
        assert late_until is not None
        await client.create(resources.JOB, job("second", parallelism=4, priority="high"), "default")
        await campaign.rest(60)  # the monitor adds up what is reserved
        assert await admitted(campaign.system) == 1

    monkeypatch.setattr(simulated_system, "FaultyClient", LateWrite)
    Campaign(1).run(story)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_leader_that_steps_down_ends_its_writes_before_the_next_one_leads(monkeypatch, is_answered):
    is_sent = False

    class SlowWrite(faults.FaultyClient):
        async def patch(self, resource, name, namespace, patch, **options):
            nonlocal is_sent
            if is_sent or not _is_reservation(name, patch):
                return await super().patch(resource, name, namespace, patch, **options)
            is_sent = True
            slow = lambda client: client.patch(resource, name, namespace, patch, **options)  # noqa: E731
            return await asyncio.shield(self._connection.send(slow, 3.6 if is_answered else 10))

    async def story(campaign):
        system = campaign.system
        await _set_up_waiting(campaign)
        [leader] = [replica for replica in system.replicas if replica.name in system.leading]
        assert is_sent
        await system.client.create(resources.JOB, job("second", parallelism=4, priority="high"), "default")
        await asyncio.sleep(0.3)
        await leader.stop()
        await campaign.rest(60)
        assert await admitted(system) == 1

    monkeypatch.setattr(simulated_system, "FaultyClient", SlowWrite)
    Campaign(1).run(story)
