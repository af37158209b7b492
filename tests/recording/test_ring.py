import stat

import pytest
from tests.engine import builders as b
from tests.engine.random_clusters import RandomCluster

from pykueue.engine import events
from pykueue.engine.policy import Policy
from pykueue.recording import records, replay, ring


@pytest.fixture
def record(tmp_path, monkeypatch):
    def run(seed=1, steps=200, size=ring.DEFAULT_BYTES):
        writer = ring.RingWriter(ring.RingOptions(directory=tmp_path / "ring", size=size), Policy())
        writer.start()
        handle = b.Cluster.handle

        def recorded(self, event):
            decided = handle(self, event)
            if isinstance(event, events.CycleDue):
                writer.cycle(event, decided)
            else:
                writer.event(event)
            return decided

        monkeypatch.setattr(b.Cluster, "handle", recorded)
        cluster = RandomCluster(seed, policy_of=lambda _seed: Policy())
        for _ in range(steps):
            cluster.step()
        writer.close()
        return cluster, tmp_path / "ring"

    return run


def steps_of(directory, **options):
    return list(replay.Replayer(**options).steps(ring.read(directory)))


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_decides_the_same(record, seed):
    cluster, directory = record(seed)
    replayed = [decision for step in steps_of(directory) for decision in step.decided]
    assert replayed == cluster.decided
    assert replayed


def test_a_torn_record_ends_the_ring(record):
    _, directory = record()
    complete = len(steps_of(directory))
    (segment,) = ring.segments(directory)
    segment.write_bytes(segment.read_bytes()[:-3])
    assert len(steps_of(directory)) == complete - 1


def test_a_damaged_record_ends_the_ring(record):
    _, directory = record()
    (segment,) = ring.segments(directory)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    assert 0 < len(steps_of(directory)) < 300


def test_the_ring_has_a_bounded_size(tmp_path):
    writer = ring.RingWriter(ring.RingOptions(directory=tmp_path, size=400_000), Policy())
    writer.start()
    for number in range(4000):
        writer.event(events.WorkloadChanged(workload=b.workload(f"workload{number % 20}"), at_ns=number))
    writer.close()
    segments = ring.segments(tmp_path)
    assert len(segments) > 1
    assert sum(path.stat().st_size for path in segments) < 500_000


def test_a_ring_that_lost_its_beginning_has_every_object(record):
    cluster, directory = record(steps=3000, size=200_000)
    assert not next(ring.read(directory)).header.is_start
    replayer = replay.Replayer()
    list(replayer.steps(ring.read(directory)))
    assert replayer.engine.view.workload_keys() == cluster.cluster.engine.view.workload_keys()


def test_a_ring_that_lost_its_beginning_mostly_decides_the_same(record):
    _, directory = record(steps=3000, size=200_000)
    cycles = [step for step in steps_of(directory) if step.recorded is not None]
    assert sum(step.differs for step in cycles) < len(cycles) / 20


def test_only_the_owner_may_read_the_ring(record):
    _, directory = record()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in ring.segments(directory)}
    assert (modes, stat.S_IMODE(directory.stat().st_mode)) == ({0o600}, 0o700)


def test_the_policy_is_recorded(record):
    _, directory = record()
    assert next(ring.read(directory)).header.policy == Policy()


def test_an_unknown_format_is_refused():
    header = records.SegmentHeader(format=99, version="0", policy=Policy(), is_start=True)
    with pytest.raises(records.RecordError, match="format 99"):
        records.decode_header(records.encode_header(header))


def test_a_full_disk_stops_nothing(tmp_path, caplog):
    (tmp_path / "ring").write_text("not a directory")
    writer = ring.RingWriter(ring.RingOptions(directory=tmp_path / "ring"), Policy())
    writer.start()
    writer.event(events.NamespaceGone(name="x"))
    writer.close()
    assert "no longer recorded" in caplog.text
