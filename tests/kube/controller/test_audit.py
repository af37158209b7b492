"""The audit on caches that are broken on purpose."""

import pytest

from pykueue.api import errors, resources
from pykueue.kube.client import ObjectList
from pykueue.kube.controller.audit import GRACE_SECONDS, CacheAudit
from pykueue.kube.controller.cache import ObjectCache


class Api:
    """Has some pods; its clock runs while somebody sleeps, and `later` then happens."""

    def __init__(self, *pods):
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.slept = []
        self.later = lambda: None

    async def list(self, _resource, *, options):
        names = sorted(self.pods)
        start = int(options.continue_token or 0)
        rest = str(start + 1) if start + 1 < len(names) else ""
        return ObjectList(
            items=[self.pods[name] for name in names[start : start + 1]], resource_version="9", continue_token=rest
        )

    async def get(self, resource, name, _namespace):
        if name not in self.pods:
            raise errors.not_found("", resource.plural, name)
        return self.pods[name]

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.later()


def pod(name, version=1, uid=""):
    metadata = {"name": name, "namespace": "n", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata}


@pytest.fixture
def cache():
    cache = ObjectCache()
    cache.replace(resources.POD, [pod("a"), pod("b")], "5")
    return cache


async def audit(api, cache):
    repaired = []
    count = await CacheAudit(api, cache, api, repaired.append).audit()
    assert repaired == [resources.POD] * count
    return count


def cached(cache):
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in cache.all(resources.POD)}


async def test_a_cache_in_step_is_left_alone(cache):
    api = Api(pod("a"), pod("b"))
    assert await audit(api, cache) == 0
    assert api.slept == []


async def test_an_object_that_does_not_exist_is_removed_and_stays_away(cache):
    removed = []
    cache.on_change(resources.POD, lambda old, new: removed.append((old["metadata"]["name"], new)))
    assert await audit(Api(pod("a")), cache) == 1
    assert removed == [("b", None)]
    cache.apply_event(resources.POD, "MODIFIED", pod("b", 6))
    assert cached(cache) == {"a": "1"}


async def test_a_missing_object_and_an_old_version_are_repaired(cache):
    assert await audit(Api(pod("a"), pod("b", 4), pod("c", 3)), cache) == 2
    assert cached(cache) == {"a": "1", "b": "4", "c": "3"}


async def test_another_object_of_the_same_name_takes_its_place(cache):
    seen = []
    cache.on_change(
        resources.POD, lambda old, new: seen.append((old and old["metadata"]["uid"], new and new["metadata"]["uid"]))
    )
    assert await audit(Api(pod("a"), pod("b", 4, uid="other")), cache) == 1
    assert seen == [("b", None), (None, "other")]


async def test_a_watch_that_is_only_late_is_no_difference(cache):
    api = Api(pod("a"), pod("b", 6))
    api.later = lambda: cache.apply_event(resources.POD, "MODIFIED", pod("b", 6))
    assert await audit(api, cache) == 0
    assert api.slept == [GRACE_SECONDS]


async def test_a_cache_that_is_ahead_of_the_list_is_no_difference(cache):
    cache.apply_event(resources.POD, "MODIFIED", pod("b", 8))
    assert await audit(Api(pod("a"), pod("b", 6)), cache) == 0
