import gzip
import json

import pytest

from pykueue.conformance import corpus, differences, session

CASE = {"suite": "TestCountIn", "name": "two", "requests": {"cpu": 2}, "capacity": {"cpu": 5}, "expect": {"count": 2}}


def recording(path, *cases):
    text = "".join(json.dumps(case) + "\n" for case in cases)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_a_reproduced_case_passes(tmp_path):
    assert str(session.replay(recording(tmp_path / "Counts.jsonl", CASE))) == "Counts: 1 of 1"


def test_compressed_files_are_read(tmp_path):
    assert str(session.replay(recording(tmp_path / "Counts.jsonl.gz", CASE, CASE))) == "Counts: 2 of 2"


def test_a_departure_is_reported_with_both_answers(tmp_path):
    report = session.replay(recording(tmp_path / "Counts.jsonl", CASE | {"expect": {"count": 3}}))
    assert str(report.failures[0].differences[0]) == "answer: expected 3, got 2"


def test_a_crash_fails_its_case_only(tmp_path):
    report = session.replay(recording(tmp_path / "Counts.jsonl", CASE | {"capacity": None}, CASE))
    assert (report.passed, report.total, report.failures[0].crash.partition(":")[0]) == (1, 2, "AttributeError")


def test_a_suite_without_a_runner_fails(tmp_path):
    report = session.replay(recording(tmp_path / "Odd.jsonl", {"suite": "TestUnheardOf", "name": "a"}))
    assert (str(report), report.ok) == ("Odd: no runner", False)


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text("{}\n{\n")
    with pytest.raises(corpus.CorpusError, match=r"broken\.jsonl:2:"):
        list(corpus.cases(path))


def test_folders_give_their_recordings_in_order(tmp_path):
    for name in ("b.jsonl", "a.jsonl.gz", "notes.txt"):
        (tmp_path / name).touch()
    assert [corpus.name_of(path) for path in corpus.recordings([tmp_path])] == ["a", "b"]


def test_differences_name_the_path():
    mismatches = differences.between({"a": [{"b": 1}], "c": 2}, {"a": [{"b": 3}]})
    assert [str(mismatch) for mismatch in mismatches] == ["a[0].b: expected 1, got 3", "c: expected 2, got nothing"]
