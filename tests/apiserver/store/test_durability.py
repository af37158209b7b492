"""SIGKILL during concurrent writes: no acknowledged write is lost, no revision is reused."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykueue.apiserver.store.rows import StoreKey
from pykueue.apiserver.store.sqlite import SqliteLog
from pykueue.apiserver.store.store import Store

WRITER = Path(__file__).with_name("endless_writer.py")


def run_and_kill(directory, seed):
    """Kill a writer at a random time after its first write; return the acknowledged writes."""
    writer = subprocess.Popen([sys.executable, WRITER, directory, str(seed)], stdout=subprocess.PIPE, text=True)
    lines = [writer.stdout.readline()]
    deadline = time.monotonic() + random.Random(seed).uniform(0.01, 0.4)
    while time.monotonic() < deadline:
        lines.append(writer.stdout.readline())
    writer.kill()
    lines += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    complete = [line.split() for line in lines if line.endswith("\n")]
    return [(int(revision), name, value) for revision, name, value in complete]


def check(directory, acknowledged, newest_before):
    store = Store(log := SqliteLog(Path(directory)))
    try:
        assert store.revision >= max([newest_before, *(revision for revision, _, _ in acknowledged)])
        changes = store.changes_after(store.floor)
        revisions = [change.revision for change in changes]
        assert revisions == list(range(store.floor + 1, store.revision + 1)), "history has a gap or a repeat"
        by_revision = {change.revision: change for change in changes}
        for revision, name, value in acknowledged:
            if revision > store.floor:
                stored = by_revision[revision].now
                assert (stored.key.name, stored.decode()["data"]["value"]) == (name, value)
            else:
                current = store.get(StoreKey("", "configmaps", "default", name))
                assert current is None or current.revision >= revision
        return store.revision
    finally:
        log.close()


def campaign(directory, kills, seed):
    newest, writes = 0, 0
    for number in range(kills):
        acknowledged = run_and_kill(directory, f"{seed}-{number}")
        newest = check(directory, acknowledged, newest)
        writes += len(acknowledged)
    assert writes > kills


def test_five_kills(tmp_path):
    campaign(tmp_path, 5, seed=1)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_two_hundred_kills(tmp_path):
    campaign(tmp_path, 200, seed=time.time_ns())
