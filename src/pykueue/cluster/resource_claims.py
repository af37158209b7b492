"""The resource claim controller: makes a ResourceClaim for each pod from a ResourceClaimTemplate.

The names of the claims stand in the status of the pod. The claims of a finished pod are deleted;
those of a deleted pod go with their owner. The scheduler allocates the devices of claims; a claim
that no pod uses any more loses its devices here.
"""

from pykueue.api import objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import extended_resources
from pykueue.kube.clock import Clock
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import Key, ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue

CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim: the entry of the pod's `resourceClaims` for which it was made."""
_LONGEST_BASE = 57
_EVENT_REASON = "FailedResourceClaimCreation"


class ResourceClaimController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock) -> None:
        self._cache = cache
        self._executor = executor
        self.queue: WorkQueue[Key] = WorkQueue("resource-claims", clock)
        for kind in (resources.POD, resources.RESOURCE_CLAIM, resources.RESOURCE_CLAIM_TEMPLATE):
            cache.add_kind(kind)
        cache.add_index(resources.RESOURCE_CLAIM, "pod", _pod_uids)
        cache.add_index(resources.RESOURCE_CLAIM, "reservedFor", _reserving_pods)
        cache.add_index(resources.POD, "claimTemplate", _template_keys)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.RESOURCE_CLAIM_TEMPLATE, self._template_changed)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = latest(old, new)
        if objects.spec(pod).get("resourceClaims") or extended_resources.claim_name(pod):
            self.queue.add(key_of(pod))

    def _template_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            for pod in self._cache.indexed(resources.POD, "claimTemplate", "/".join(key_of(new))):
                self.queue.add(key_of(pod))

    async def run(self) -> None:
        await self.queue.run(self.reconcile, workers=4)

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        pod = self._cache.get(resources.POD, name, namespace)
        if releases := self._releases(key, pod):
            released = await self._executor.run(_written(releases))
            if released.errors:
                raise released.errors[0]
        if pod is None or objects.is_deleted(pod):
            return 0
        done = await self._executor.run(self._sync(pod))
        if done.errors:
            raise done.errors[0]
        return done.requeue_after_ns

    def _releases(self, key: Key, pod: Object | None) -> list[writes.Action]:
        """Take the pod out of `reservedFor` of claims; the last one gives the devices back."""
        user = objects.uid(pod) if pod is not None and not pods.is_finished(pod) else ""
        batch: list[writes.Action] = []
        for claim in self._cache.indexed(resources.RESOURCE_CLAIM, "reservedFor", "/".join(key)):
            reserved = objects.nested_list(claim, "status", "reservedFor")
            left = [entry for entry in reserved if entry["name"] != key[1] or entry["uid"] == user]
            if left != reserved:
                status: Object = {"reservedFor": left} if left else {"reservedFor": None, "allocation": None}
                batch.append(
                    writes.Patch(
                        resource=resources.RESOURCE_CLAIM, object=claim, patch={"status": status}, subresource="status"
                    )
                )
        return batch

    def _sync(self, pod: Object) -> writes.Sync:
        owned = [
            claim
            for claim in self._cache.indexed(resources.RESOURCE_CLAIM, "pod", objects.uid(pod))
            if not objects.is_deleted(claim)
        ]
        if pods.is_finished(pod):
            results = yield [writes.Delete(resource=resources.RESOURCE_CLAIM, object=claim) for claim in owned]
            return writes.Done(errors=writes.refusals(results))
        annotated = ((objects.annotations(claim).get(CLAIM_NAME), claim) for claim in owned)
        claims = {name: claim for name, claim in annotated if name is not None}
        missing = {name: template for name, template in _templates(pod).items() if name not in claims}
        batch = [self._creation(pod, name, template) for name, template in missing.items()]
        results = (yield batch) if batch else []
        created = {
            name: result
            for name, result in zip(missing, results, strict=True)
            if result and not isinstance(result, writes.Refused)
        }
        statuses = [
            {"name": name, "resourceClaimName": objects.name(claim)}
            for name, claim in sorted((claims | created).items())
        ]
        if statuses and statuses != objects.status(pod).get("resourceClaimStatuses"):
            results += yield [_status_patch(pod, statuses)]
        return writes.Done(errors=writes.refusals(results))

    def _creation(self, pod: Object, name: str, template_name: str) -> writes.Action:
        template = self._cache.get(resources.RESOURCE_CLAIM_TEMPLATE, template_name, objects.namespace(pod))
        if template is None:
            message = f'PodResourceClaim {name}: resourceclaimtemplates.resource.k8s.io "{template_name}" not found'
            return writes.Event(about=pod, type="Warning", reason=_EVENT_REASON, message=message)
        return writes.Create(resource=resources.RESOURCE_CLAIM, object=claim_of(pod, name, template))


def _written(batch: list[writes.Action]) -> writes.Sync:
    results = yield batch
    return writes.Done(errors=writes.refusals(results))


def _reserving_pods(claim: Object) -> list[str]:
    reserved = objects.nested_list(claim, "status", "reservedFor")
    return [f"{objects.namespace(claim)}/{entry['name']}" for entry in reserved if entry.get("resource") == "pods"]


def claim_of(pod: Object, name: str, template: Object) -> Object:
    """The claim of a pod; the pod owns it."""
    content = objects.spec(template)
    annotations = {**(objects.nested(content, "metadata").get("annotations") or {}), CLAIM_NAME: name}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": objects.name(pod),
        "uid": objects.uid(pod),
        "controller": True,
    }
    return {
        "metadata": {
            "generateName": _base_name(objects.name(pod), name),
            "namespace": objects.namespace(pod),
            "labels": dict(objects.nested(content, "metadata").get("labels") or {}),
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": content.get("spec") or {},
    }


def _base_name(pod: str, claim: str) -> str:
    """Pod and claim, both cut in proportion to their lengths if the name would be too long."""
    base = f"{pod}-{claim}-"
    if len(base) <= _LONGEST_BASE:
        return base
    return f"{pod[: len(pod) * _LONGEST_BASE // len(base)]}-{claim[: len(claim) * _LONGEST_BASE // len(base)]}"


def _templates(pod: Object) -> dict[str, str]:
    """The templates of the pod, by the name of the claim."""
    claims = objects.spec(pod).get("resourceClaims") or ()
    return {
        claim["name"]: claim["resourceClaimTemplateName"] for claim in claims if claim.get("resourceClaimTemplateName")
    }


def _template_keys(pod: Object) -> list[str]:
    return [f"{objects.namespace(pod)}/{template}" for template in _templates(pod).values()]


def _pod_uids(claim: Object) -> list[str]:
    owner = objects.controller_of(claim)
    return [owner["uid"]] if owner is not None and owner["kind"] == "Pod" else []


def _status_patch(pod: Object, statuses: list[Object]) -> writes.Patch:
    return writes.Patch(
        resource=resources.POD,
        object=pod,
        patch={"status": {"resourceClaimStatuses": statuses}},
        subresource="status",
        guarded=False,
    )
