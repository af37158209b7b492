"""Every order in which watch events, lists and answers to our own writes can reach the cache.

The API's own history is one sequence of versions. The watch shows it in order, a list may skip a
part of it, and the answer to each of our writes arrives at any time.
"""

import itertools

import pytest

from pykueue.api import resources
from pykueue.kube.controller.cache import ObjectCache

pytestmark = pytest.mark.untraced

KIND = resources.WORKLOAD


def version(number, uid, **metadata):
    return {"metadata": {"name": "w", "namespace": "n", "uid": uid, "resourceVersion": str(number), **metadata}}


class History:
    """What happened in the API: (watch event type, object) by version, from version 1."""

    def __init__(self, *changes):
        self.events = [
            (kind, version(number, uid, **metadata)) for number, (kind, uid, metadata) in enumerate(changes, 1)
        ]

    def answer(self, number):
        return "answer", self.events[number - 1][1]

    def delete_answer(self, number):
        return "delete answer", self.events[number - 1][1]

    def state(self, number):
        """What a list at this version shows."""
        kind, obj = self.events[number - 1] if number else ("DELETED", None)
        return [] if kind == "DELETED" else [obj]

    def deleted(self, number):
        """The uids that do not exist any more at this version."""
        return {obj["metadata"]["uid"] for kind, obj in self.events[:number] if kind == "DELETED"}

    def watches(self):
        """The events one by one, and all of them with a list that skips a part."""
        steps = [("watch", kind, obj) for kind, obj in self.events]
        yield steps
        for begin, end in itertools.combinations(range(len(steps) + 1), 2):
            yield [*steps[:begin], ("list", self.state(end), end), *steps[end:]]


def recreated(length):
    """Created and patched by us, deleted by somebody, created again by us, patched and deleted."""
    changes = (
        ("ADDED", "a", {}),
        ("MODIFIED", "a", {}),
        ("DELETED", "a", {}),
        ("ADDED", "b", {}),
        ("MODIFIED", "b", {}),
        ("DELETED", "b", {}),
    )
    history = History(*changes[:length])
    return history, [history.answer(number) for number in (1, 2, 4, 5) if number <= length]


def finalized():
    """Deleted by somebody while a finalizer holds it; we remove the finalizer, and somebody takes
    the name.
    """
    history = History(
        ("ADDED", "a", {"finalizers": ["f"]}),
        ("MODIFIED", "a", {"finalizers": ["f"], "deletionTimestamp": "t"}),
        ("DELETED", "a", {"deletionTimestamp": "t"}),
        ("ADDED", "b", {}),
    )
    return history, [history.answer(1), history.answer(3)]


def deleted_by_us(length):
    """Created and deleted by us; a finalizer holds it until somebody removes that."""
    changes = (
        ("ADDED", "a", {"finalizers": ["f"]}),
        ("MODIFIED", "a", {"finalizers": ["f"], "deletionTimestamp": "t"}),
        ("DELETED", "a", {"deletionTimestamp": "t"}),
        ("ADDED", "b", {}),
    )
    history = History(*changes[:length])
    return history, [history.answer(1), history.delete_answer(1)]


def orders(watch, answers):
    """The watch in its order, the answers in every order, and every way to mix the two."""
    for permutation in itertools.permutations(answers):
        for places in itertools.combinations(range(len(watch) + len(answers)), len(answers)):
            steps, answer = iter(watch), iter(permutation)
            yield [next(answer) if number in places else next(steps) for number in range(len(watch) + len(answers))]


def uid(obj):
    return obj["metadata"]["uid"]


class Observed:
    """A cache, what the watch has shown as deleted, and the versions that handlers saw."""

    def __init__(self, history):
        self.history = history
        self.cache = ObjectCache()
        self.cache.on_change(KIND, self.changed)
        self.current = None
        self.deleted = set()
        self.versions = {}
        self.faults = []

    def changed(self, old, new):
        if (old and uid(old)) != (self.current and uid(self.current)):
            self.faults.append("a handler missed a state")
        if old is not None and new is not None and uid(old) != uid(new):
            self.faults.append("another object of the same name came as an update")
        if new is not None:
            number = int(new["metadata"]["resourceVersion"])
            if number <= self.versions.get(uid(new), 0):
                self.faults.append("an older version replaced a newer one")
            self.versions[uid(new)] = number
        self.current = new

    def take(self, step):
        match step:
            case "watch", kind, obj:
                self.cache.apply_event(KIND, kind, obj)
                if kind == "DELETED":
                    self.deleted.add(uid(obj))
            case "list", items, number:
                self.cache.replace(KIND, items, str(number))
                self.deleted |= self.history.deleted(number)
            case "answer", obj:
                self.cache.observe(KIND, obj)
            case "delete answer", obj:
                self.cache.mark_deleted(KIND, obj)
        obj = self.cache.get(KIND, "w", "n")
        assert self.faults == []
        assert (obj and uid(obj)) == (self.current and uid(self.current)), "handlers know what the cache has"
        assert obj is None or uid(obj) not in self.deleted, "nothing comes back after the watch showed its deletion"


@pytest.mark.parametrize(
    ("history", "answers"),
    [*(recreated(length) for length in range(1, 7)), finalized(), *(deleted_by_us(length) for length in range(2, 5))],
)
def test_every_order_of_answers_and_watch_events_ends_in_what_the_api_has(history, answers):
    for watch in history.watches():
        for steps in orders(watch, answers):
            observed = Observed(history)
            for step in steps:
                observed.take(step)
            assert [obj["metadata"] | {"finalizers": None} for obj in observed.cache.all(KIND)] == [
                obj["metadata"] | {"finalizers": None} for obj in history.state(len(history.events))
            ], steps
