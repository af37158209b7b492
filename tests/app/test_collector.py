"""The garbage collector of a long-running process looks at each object once, and frees cycles."""

import gc
import weakref

import pytest

from pykueue.app import process


class Node:
    def __init__(self):
        self.me = self


@pytest.fixture
async def tuned():
    """A tuned collector; afterwards it is as before."""
    threshold, callbacks = gc.get_threshold(), list(gc.callbacks)
    process.tune_collector()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*threshold)
    gc.unfreeze()


async def test_what_survives_a_collection_is_not_looked_at_again(tuned):
    node = Node()
    assert gc.is_tracked(node)
    gc.collect()
    frozen = gc.get_freeze_count()
    assert not any(obj is node for obj in gc.get_objects())
    gc.collect()
    assert gc.get_freeze_count() >= frozen


async def test_new_garbage_is_freed(tuned):
    gone = weakref.ref(Node())
    gc.collect()
    assert gone() is None


async def test_old_garbage_is_freed_by_a_full_collection(tuned):
    node = Node()
    gc.collect()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None
    process.collect_everything()
    assert gone() is None
