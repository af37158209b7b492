"""The same objects give the same decisions, byte for byte, in whatever order the events arrive."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs
from tests.engine import builders as b
from tests.engine.random_clusters import QUEUES, RandomCluster, policy

from pykueue.engine import events, values

CYCLES = 12


def initial_events(seed):
    """Events for all objects of a random cluster."""
    random_cluster = RandomCluster(seed)
    for _ in range(25):
        random_cluster.arrive()
    state = random_cluster.cluster.state
    return [
        events.NamespaceChanged(name="default", labels={"team": "a", "tier": "b"}),
        *(events.FlavorChanged(flavor=flavor) for flavor in state.flavors.values()),
        *(events.CohortChanged(cohort=cohort) for cohort in state.cohorts.values()),
        *(events.ClusterQueueChanged(cluster_queue=state.cluster_queues[name].value) for name in QUEUES),
        *(events.LocalQueueChanged(local_queue=local_queue) for local_queue in state.local_queues.values()),
        *(events.WorkloadArrived(workload=two_resources(workload)) for workload in random_cluster.workloads.values()),
    ]


def two_resources(workload):
    """A resource that no queue declares, at zero, so that requests have an order to shuffle."""
    pod_sets = tuple(
        structs.replace(pod_set, requests={**pod_set.requests, values.ResourceName("memory"): 0})
        for pod_set in workload.pod_sets
    )
    return structs.replace(workload, pod_sets=pod_sets)


def shuffled(event, shuffle):
    if not isinstance(event, events.WorkloadArrived):
        return event
    pod_sets = []
    for pod_set in event.workload.pod_sets:
        items = list(pod_set.requests.items())
        shuffle(items)
        pod_sets.append(structs.replace(pod_set, requests=dict(items)))
    return events.WorkloadArrived(workload=structs.replace(event.workload, pod_sets=tuple(pod_sets)))


def decisions_after(seed, initial):
    engine = b.engine(policy(seed))
    for event in initial:
        engine.handle(event)
    return "\n".join(
        repr(decision)
        for number in range(1, CYCLES + 1)
        for decision in engine.handle(events.CycleDue(at_ns=number * b.SECOND_NS))
    )


@pytest.mark.parametrize("seed", range(4))
def test_order_of_events_and_of_mappings_does_not_matter(seed):
    initial = initial_events(seed)
    expected = decisions_after(seed, initial)
    assert expected.count("Admit(") > 2
    for number in range(25):
        shuffle = random.Random(number).shuffle
        mixed = [shuffled(event, shuffle) for event in initial]
        shuffle(mixed)
        assert decisions_after(seed, mixed) == expected


def digest():
    return hashlib.sha256(
        "".join(decisions_after(seed, initial_events(seed)) for seed in range(4)).encode()
    ).hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_hash_seed_does_not_matter(hash_seed):
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    script = "from tests.engine import test_determinism; print(test_determinism.digest())"
    completed = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == digest()


def test_a_fork_decides_alike_and_leaves_the_original_alone():
    random_cluster = RandomCluster(3)
    for _ in range(40):
        random_cluster.step()
    engine = random_cluster.cluster.engine
    fork = engine.fork()
    due = events.CycleDue(at_ns=random_cluster.cluster.now_ns + b.SECOND_NS)
    expected = repr(fork.fork().handle(due))
    assert repr(fork.handle(due)) == expected
    assert repr(engine.handle(due)) == expected
