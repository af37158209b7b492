import copy

from tests.cluster.world import World

from pykueue.api import conditions, objects
from pykueue.cluster.operators import leader_worker_set

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


class Orchestra:
    def __init__(self, **spec):
        self.world = World()
        templates = {"size": 2, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
        self.world.add(
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
        return self.world.get("LeaderWorkerSet", "llm")

    def names(self):
        return sorted(objects.name(pod) for pod in self.world.of("Pod"))

    def pod(self, name):
        return self.world.get("Pod", name)

    def sync(self):
        self.world.run(leader_worker_set.sync(copy.deepcopy(self.set), self.world.of("Pod"), self.world.now))
        return self

    def ready(self, *names):
        for name in names or self.names():
            self.pod(name)["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.sync()


def test_every_group_has_a_leader_and_its_workers():
    assert Orchestra().names() == ["llm-0", "llm-0-1", "llm-1", "llm-1-1"]


def test_workers_know_their_leader_and_their_place():
    orchestra = Orchestra()
    worker = orchestra.pod("llm-1-1")
    assert objects.annotations(worker)["leaderworkerset.sigs.k8s.io/leader-name"] == "llm-1"
    assert "leaderworkerset.sigs.k8s.io/leader-name" not in objects.annotations(orchestra.pod("llm-1"))
    env = {each["name"]: each["value"] for each in worker["spec"]["containers"][0]["env"]}
    assert env == {"LWS_LEADER_ADDRESS": "llm-1.llm.ns", "LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1"}


def test_workers_may_wait_for_their_leader():
    orchestra = Orchestra(startupPolicy="LeaderReady")
    assert orchestra.names() == ["llm-0", "llm-1"]
    assert orchestra.ready("llm-0").names() == ["llm-0", "llm-0-1", "llm-1"]


def test_a_failed_pod_takes_its_group_along():
    orchestra = Orchestra().ready()
    before = objects.uid(orchestra.pod("llm-0")), objects.uid(orchestra.pod("llm-1"))
    orchestra.pod("llm-0-1")["status"] = {"phase": "Failed"}
    orchestra.sync().sync()
    after = objects.uid(orchestra.pod("llm-0")), objects.uid(orchestra.pod("llm-1"))
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


def test_scaling_down_ends_the_last_groups():
    orchestra = Orchestra()
    orchestra.set["spec"]["replicas"] = 1
    assert orchestra.sync().sync().names() == ["llm-0", "llm-0-1"]


def test_a_new_template_replaces_one_group_after_the_other():
    orchestra = Orchestra().ready()
    first, last = objects.uid(orchestra.pod("llm-0")), objects.uid(orchestra.pod("llm-1"))
    orchestra.set["spec"]["leaderWorkerTemplate"]["workerTemplate"] = {"spec": {"containers": [{"name": "new"}]}}
    orchestra.sync().sync()
    assert objects.uid(orchestra.pod("llm-0")) == first
    assert objects.uid(orchestra.pod("llm-1")) != last
    orchestra.ready().sync()
    assert objects.uid(orchestra.pod("llm-0")) != first


def test_a_set_is_available_when_all_groups_are_ready():
    orchestra = Orchestra().ready("llm-0", "llm-0-1")
    assert (orchestra.set["status"]["readyReplicas"], conditions.is_true(orchestra.set, "Available")) == (1, False)
    assert conditions.is_true(orchestra.ready().set, "Available")
