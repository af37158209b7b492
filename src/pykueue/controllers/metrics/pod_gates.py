"""How long pods of an admitted Workload kept a scheduling gate of ours. Part of `happened`."""

from pykueue.api import conditions, resources
from pykueue.api.labels import POD_GROUP_NAME, WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.controllers.metrics.instruments import Instruments
from pykueue.controllers.workloads import predicates
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache

GATES = ("kueue.x-k8s.io/topology", "kueue.x-k8s.io/admission", "kueue.x-k8s.io/elastic-job")


class PodGates:
    def __init__(self, mirror: ObjectCache, clock: Clock, instruments: Instruments) -> None:
        self._mirror = mirror
        self._clock = clock
        self._instruments = instruments
        mirror.on_change(resources.POD, self._pod_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or not old["spec"].get("schedulingGates"):
            return
        for gate in _gates(old) - _gates(new):
            self._removed(gate, new)

    def _removed(self, gate: str, pod: Object) -> None:
        group = (pod["metadata"].get("labels") or {}).get(POD_GROUP_NAME, "")
        workload = self._workload_of(pod, group)
        admitted = None if workload is None else conditions.find(workload, "Admitted")
        if workload is None or admitted is None or admitted["status"] != "True":
            return
        seconds = (self._clock.now_ns() - conditions.since_ns(admitted)) / SECOND_NS
        labels = (gate, predicates.cluster_queue_reserved(workload), "true" if group else "false")
        self._instruments.observe("pod_scheduling_gate_removal_seconds", *labels, seconds=seconds)

    def _workload_of(self, pod: Object, group: str) -> Object | None:
        """Named by the pod, of its group, or its own."""
        metadata = pod["metadata"]
        name = group or (metadata.get("annotations") or {}).get(WORKLOAD_ANNOTATION, "")
        if name:
            return self._mirror.get(resources.WORKLOAD, name, metadata["namespace"])
        owned = self._mirror.indexed(resources.WORKLOAD, "owner", f"Pod/{metadata['namespace']}/{metadata['name']}")
        return owned[0] if owned else None


def _gates(pod: Object) -> set[str]:
    return {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()} & set(GATES)
