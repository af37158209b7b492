from msgspec import structs

from pykueue.engine import decisions, reasons, values
from pykueue.translate import outcomes

ADMISSION = values.Admission(
    cluster_queue="team-a",
    pod_sets=(
        values.PodSetAdmission(
            name="main", flavors={"cpu": "spot", "memory": "spot"}, usage={"cpu": 1500, "memory": 2**30}, count=3
        ),
    ),
)


def workload(name, priority=0):
    return values.Workload(
        key=f"ns/{name}",
        uid=f"uid-{name}",
        namespace="ns",
        local_queue="ns/main",
        created_at_ns=0,
        priority=priority,
        pod_sets=(values.PodSet(name="main", count=2, spec_count=2, requests={"cpu": 2000}),),
    )


def admit(**changes):
    settings = {"borrowing": 0, "admitted": True, "considered": (), "reserved_at_ns": 0}
    return decisions.Admit(workload="ns/a", cluster_queue="team-a", admission=ADMISSION, **(settings | changes))


def mark_inadmissible(pending, no_fit_reason=reasons.NoFitReason.WAITING_FOR_QUOTA):
    return decisions.MarkInadmissible(
        workload="ns/a",
        cluster_queue="team-a",
        reason=reasons.RequeueReason.NO_FIT,
        pending=pending,
        no_fit_reason=no_fit_reason,
    )


SHORT = reasons.FlavorsShort(
    pod_sets=(
        reasons.PodSetShortage(
            name="main", reasons=(reasons.QuotaShort(flavor="spot", resource="memory", needed=2**30),)
        ),
    )
)


def test_an_admission_is_shown_in_quantities():
    assert outcomes.admission(ADMISSION) == {
        "clusterQueue": "team-a",
        "podSetAssignments": [
            {
                "name": "main",
                "flavors": {"cpu": "spot", "memory": "spot"},
                "resourceUsage": {"cpu": "1500m", "memory": "1Gi"},
                "count": 3,
            }
        ],
    }


def test_requests_are_shown_while_pending():
    assert outcomes.resource_requests(workload("a")) == [{"name": "main", "resources": {"cpu": "2"}}]


def test_an_admission_without_checks_gives_two_events():
    events = outcomes.admission_events(admit(), waited_ns=90 * 10**9)
    assert [(event.reason, event.message) for event in events] == [
        ("QuotaReserved", "Quota reserved in ClusterQueue team-a, wait time since queued was 90s"),
        ("Admitted", "Admitted by ClusterQueue team-a, wait time since reservation was 0s"),
    ]


def test_a_reservation_that_waits_for_checks_is_not_yet_admitted():
    assert [event.reason for event in outcomes.admission_events(admit(admitted=False), waited_ns=0)] == [
        "QuotaReserved"
    ]


def test_a_shortage_is_told_in_quantities():
    assert outcomes.pending_message(mark_inadmissible(SHORT)) == (
        "couldn't assign flavors to pod set main: insufficient unused quota for memory in flavor spot, 1Gi more needed"
    )


def test_granular_reasons_are_an_option():
    assert outcomes.pending_reason(mark_inadmissible(SHORT), is_granular=False) == "Pending"
    assert outcomes.pending_reason(mark_inadmissible(SHORT), is_granular=True) == "WaitingForQuota"


def test_blocked_admission_is_waiting():
    assert outcomes.pending_reason(mark_inadmissible(reasons.PodsNotReady()), is_granular=False) == "Waiting"


def test_a_pending_event_is_a_warning_cut_to_a_kilobyte():
    invalid = values.InvalidRequests(rule=values.RequestsRule.LIMIT_RANGE, field_errors="x" * 5000)
    event = outcomes.pending_event(mark_inadmissible(reasons.RequestsInvalid(invalid=invalid)), is_granular=False)
    assert event.is_warning
    assert len(event.message) == 1024


def test_a_preemption_tells_victim_and_preemptor():
    target = decisions.PreemptedWorkload(
        workload="ns/low",
        cluster_queue="team-b",
        reason=reasons.PreemptionReason.IN_COHORT_RECLAMATION,
        path=("all", "team-b"),
    )
    decision = decisions.Preempt(workload="ns/a", cluster_queue="team-a", targets=(target,), path=("all", "team-a"))
    events = outcomes.preemption_events(
        decision, target, preemptor=workload("a", priority=10), victim=workload("low", priority=1)
    )
    assert [(event.workload, event.reason) for event in events] == [
        ("ns/low", "EvictedDueToPreempted"),
        ("ns/low", "Preempted"),
        ("ns/a", "PreemptedWorkload"),
    ]
    assert events[2].message == (
        "Preempted workload ns/low (UID: uid-low) in ClusterQueue team-b; preemptor effective priority: 10 "
        "(base: 10, boost: 0); preemptee effective priority: 1 (base: 1, boost: 0)"
    )


def test_a_topology_may_be_encoded_without_prefixes_of_host_names():
    names = [f"{rack}-{number}" for rack in ("rack-one", "other-two") for number in range(60)]
    domains = tuple(values.TopologyDomain((name,), 1) for name in names)
    topology = values.TopologyAssignment(levels=("kubernetes.io/hostname",), domains=domains)
    pod_set = structs.replace(ADMISSION.pod_sets[0], topology=topology)
    admission = structs.replace(ADMISSION, pod_sets=(pod_set,))

    def slices(**options):
        (assignment,) = outcomes.admission(admission, **options)["podSetAssignments"]
        return len(assignment["topologyAssignment"]["slices"])

    assert slices() == 2
    assert slices(by_hostname_prefix=False) == 1
