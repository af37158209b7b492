import copy

from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.cluster.operators import leader_worker_set

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


class LeaderWorkerSetFixture:
    def __init__(self, **spec):
        self.api = FakeApi()
        templates = {"size": 2, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
        self.api.add(
            {
                "apiVersion": "leaderworkerset.x-k8s.io/v1",
                "kind": "LeaderWorkerSet",
                "metadata": {"name": "llm", "namespace": "ns"},
                "spec": {"replicas": 2, "leaderWorkerTemplate": templates} | spec,
            }
        )
        self.sync()

    @property
    def set(self):
        return self.api.get("LeaderWorkerSet", "llm")

    def names(self):
        return sorted(objects.name(pod) for pod in self.api.of("Pod"))

    def pod(self, name):
        return self.api.get("Pod", name)

    def sync(self):
        self.api.run(leader_worker_set.sync(copy.deepcopy(self.set), self.api.of("Pod"), self.api.now))
        return self

    def ready(self, *names):
        for name in names or self.names():
            self.pod(name)["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.sync()


def test_every_group_has_a_leader_and_its_workers():
    assert LeaderWorkerSetFixture().names() == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]


def test_workers_have_the_address_of_their_leader_and_their_index():
    fixture = LeaderWorkerSetFixture()
    worker = fixture.pod("llm-1-1")
    assert objects.annotations(worker)["leaderworkerset.sigs.k8s.io/leader-name"] == "llm-1"
    assert "leaderworkerset.sigs.k8s.io/leader-name" not in objects.annotations(fixture.pod("llm-1"))
    env = {variable["name"]: variable["value"] for variable in worker["spec"]["containers"][0]["env"]}
    assert env == {"LWS_LEADER_ADDRESS": "llm-1.llm.ns", "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1"}


def test_workers_may_wait_for_their_leader():
    fixture = LeaderWorkerSetFixture(startupPolicy="LeaderReady")
    assert fixture.names() == ["llm-0", "llm-1"]
    assert fixture.ready("llm-0").names() == ["llm-0", "llm-0-1", "llm-1"]


def test_refused_workers_do_not_hold_up_the_leaders_of_other_groups():
    fixture = LeaderWorkerSetFixture(replicas=0)
    fixture.api.refuse = lambda write: getattr(write, "object", {}).get("metadata", {}).get("name", "").count("-") == 2
    fixture.set["spec"]["replicas"] = 3
    fixture.sync()
    assert fixture.names() == ["llm-0", "llm-1", "llm-2"]


def test_a_failed_pod_takes_its_group_along():
    fixture = LeaderWorkerSetFixture().ready()
    before = objects.uid(fixture.pod("llm-0")), objects.uid(fixture.pod("llm-1"))
    fixture.pod("llm-0-1")["status"] = {"phase": "Failed"}
    fixture.sync().sync()
    after = objects.uid(fixture.pod("llm-0")), objects.uid(fixture.pod("llm-1"))
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


def test_scaling_down_ends_the_last_groups():
    fixture = LeaderWorkerSetFixture()
    fixture.set["spec"]["replicas"] = 1
    assert fixture.sync().sync().names() == ["llm-0", "llm-0-1"]


def test_a_new_template_replaces_one_group_after_the_other():
    fixture = LeaderWorkerSetFixture().ready()
    first, last = objects.uid(fixture.pod("llm-0")), objects.uid(fixture.pod("llm-1"))
    fixture.set["spec"]["leaderWorkerTemplate"]["workerTemplate"] = {"spec": {"containers": [{"name": "new"}]}}
    fixture.sync().sync()
    assert objects.uid(fixture.pod("llm-0")) == first
    assert objects.uid(fixture.pod("llm-1")) != last
    fixture.ready().sync()
    assert objects.uid(fixture.pod("llm-0")) != first


def test_a_set_is_available_when_all_groups_are_ready():
    fixture = LeaderWorkerSetFixture().ready("llm-0", "llm-0-1")
    assert (fixture.set["status"]["readyReplicas"], conditions.is_true(fixture.set, "Available")) == (1, False)
    assert conditions.is_true(fixture.ready().set, "Available")
