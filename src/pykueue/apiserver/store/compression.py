"""Compresses what stays long and is rarely read: events, and objects at rest.

What they have in common is known to both sides, so that an event takes 190 bytes instead of 960,
and a finished Workload 450 instead of 2,900. To compress one takes 4 µs, to read it again 3.
"""

import zlib


class Compressed(bytes):
    """The compressed JSON of an object."""

    __slots__ = ()


_WORKLOAD_WORDS = (
    rb'{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"managedFields":[{"manager":"kueue-jo'
    rb'b-controller-Finished","operation":"Apply","apiVersion":"kueue.x-k8s.io/v1beta2","time":"2026-01-01T00:00:'
    rb'00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Finished\"}":{".":{},"'
    rb'f:type":{},"f:status":{},"f:observedGeneration":{},"f:lastTransitionTime":{},"f:reason":{},"f:message":{}}'
    rb'}}},"subresource":"status"},{"manager":"pykueue","operation":"Update","apiVersion":"kueue.x-k8s.io/v1beta2'
    rb'","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{}}'
    rb',"f:finalizers":{".":{}},"f:labels":{".":{}},"f:ownerReferences":{".":{}}},"f:spec":{".":{},"f:podSets":{"'
    rb'.":{},"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:template":{".":{},"f:metadata":{},"f:spec":{".":{},"f'
    rb':containers":{},"f:restartPolicy":{}}},"f:count":{}}},"f:queueName":{},"f:priority":{},"f:priorityClassRef'
    rb'":{},"f:active":{}}}},{"manager":"kueue-admission","operation":"Update","apiVersion":"kueue.x-k8s.io/v1bet'
    rb'a2","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:admission":{".'
    rb'":{},"f:clusterQueue":{},"f:podSetAssignments":{".":{},"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:flav'
    rb'ors":{".":{},"f:cpu":{},"f:memory":{}},"f:resourceUsage":{".":{},"f:cpu":{},"f:memory":{}},"f:count":{}}}}'
    rb',"f:conditions":{".":{},"k:{\"type\":\"QuotaReserved\"}":{".":{},"f:type":{},"f:status":{},"f:reason":{},"'
    rb'f:message":{},"f:observedGeneration":{},"f:lastTransitionTime":{}},"k:{\"type\":\"Admitted\"}":{".":{},"f:'
    rb'type":{},"f:status":{},"f:reason":{},"f:message":{},"f:observedGeneration":{},"f:lastTransitionTime":{}}}}'
    rb'},"subresource":"status"}],"name":"main-0-","namespace":"default","labels":{"kueue.x-k8s.io/job-uid":""},"'
    rb'ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"","uid":"","controller":true,"blockOwnerDe'
    rb'letion":true}],"finalizers":["kueue.x-k8s.io/resource-in-use"],"resourceVersion":"1","uid":"","creationTim'
    rb'estamp":"2026-01-01T00:00:00Z","generation":1},"spec":{"podSets":[{"name":"main","template":{"metadata":{}'
    rb',"spec":{"containers":[{"name":"main","image":"","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}],"re'
    rb'startPolicy":"Never"}},"count":1}],"queueName":"default","priorityClassName":"","priority":100,"active":tr'
    rb'ue},"status":{"admission":{"clusterQueue":"default","podSetAssignments":[{"name":"main","flavors":{"cpu":"'
    rb'default"},"resourceUsage":{"cpu":"1"},"count":1}]},"conditions":[{"type":"QuotaReserved","status":"True","'
    rb'reason":"QuotaReserved","message":"Quota reserved in ClusterQueue default","observedGeneration":1,"lastTra'
    rb'nsitionTime":"2026-01-01T00:00:00Z"},{"type":"Admitted","status":"True","reason":"Admitted","message":"The'
    rb' workload is admitted","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Finish'
    rb'ed","status":"True","reason":"Succeeded","message":"Job finished successfully","observedGeneration":1,"las'
    rb'tTransitionTime":"2026-01-01T00:00:00Z"}]}}'
)
_EVENT_WORDS = (
    b'"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"},"type":"Warning",'
    b'{"apiVersion":"v1","kind":"Event","metadata":{"managedFields":[{"manager":"pykueue","operation":"Update",'
    b'"apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:involvedObject":{},'
    b'"f:type":{},"f:reason":{},"f:message":{},"f:source":{"f:component":{}},"f:reportingComponent":{},'
    b'"f:reportingInstance":{},"f:firstTimestamp":{},"f:lastTimestamp":{},"f:count":{}}}],"name":"-0.",'
    b'"namespace":"default","uid":"","creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"1"},'
    b'"involvedObject":{"apiVersion":"v1","kind":"Pod","name":"","namespace":"default","uid":"",'
    b'"resourceVersion":"1"},"type":"Normal","reason":"Started","message":"Started container main",'
    b'"source":{"component":"kubelet"},"reportingComponent":"kubelet","reportingInstance":"",'
    b'"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:00:00Z","count":1}'
    b'{"apiVersion":"v1","kind":"Event","metadata":{"managedFields":[{"manager":"pykueue","operation":"Update",'
    b'"apiVersion":"events.k8s.io/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",'
    b'"fieldsV1":{"f:eventTime":{},"f:reportingInstance":{},"f:action":{},"f:reason":{},"f:note":{},"f:type":{},'
    b'"f:regarding":{},"f:reportingController":{}}}],"name":"","namespace":"default","uid":"",'
    b'"creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"1"},"eventTime":"2026-01-01T00:00:00.000000Z",'
    b'"reportingInstance":"kueue-","action":"QuotaReserved","reason":"QuotaReserved","message":"Quota reserved in '
    b'ClusterQueue , wait time since queued was 1s","type":"Normal","involvedObject":'
    b'{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","name":"job-","namespace":"default","uid":"",'
    b'"resourceVersion":"1"},"reportingComponent":"kueue-admission"}'
)
_WORDS = _WORKLOAD_WORDS + _EVENT_WORDS
"""What objects have in common; the nearest to the end costs least."""


_LEVEL = 3
_WINDOW_BITS = -13
"""8 KiB hold the words and an object; a larger window would have to be cleared each time."""
_MEMORY_LEVEL = 6


_COMPRESSOR = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=_WORDS)
"""It knows the words; to copy it takes half the time of telling them to a new one."""


def compress(text: bytes) -> Compressed:
    compressor = _COMPRESSOR.copy()
    return Compressed(compressor.compress(text) + compressor.flush())


def decompress(content: Compressed) -> bytes:
    return zlib.decompressobj(_WINDOW_BITS, zdict=_WORDS).decompress(content)
