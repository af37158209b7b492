import json

import pytest
from click.testing import CliRunner

from pykueue.cli.main import cli

CASE = {"suite": "TestCountIn", "name": "two", "requests": {"cpu": 2}, "capacity": {"cpu": 5}, "expect": {"count": 2}}


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments, cases=(CASE,)):
        (tmp_path / "Counts.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
        return CliRunner().invoke(cli, ["conformance", str(tmp_path), *arguments])

    return invoke


def test_one_line_a_file(run):
    result = run()
    assert (result.exit_code, result.output) == (0, "Counts: 1 of 1\n")


def test_a_difference_is_shown_and_fails(run):
    result = run(cases=[CASE | {"expect": {"count": 3}}])
    assert result.exit_code == 1
    assert result.output == "Counts: 0 of 1\n\nCounts / two\n  answer: expected 3, got 2\n"


def test_only_picks_cases(run):
    assert run("--only", "Counts/t*", cases=[CASE, CASE | {"name": "one"}]).output == "Counts: 1 of 1\n"


def test_json_output(run):
    assert json.loads(run("--output", "json").output)[0]["passed"] == 1


def test_a_missing_file_is_one_line():
    result = CliRunner().invoke(cli, ["conformance", "nowhere.jsonl"])
    assert (result.exit_code, result.output) == (1, "Error: nowhere.jsonl: no such file or folder\n")


def test_a_pattern_that_matches_nothing_is_an_error(run):
    result = run("--only", "Nothing*")
    assert (result.exit_code, result.output) == (1, "Error: no recording matches Nothing*\n")


def test_an_empty_folder_is_an_error(tmp_path):
    result = CliRunner().invoke(cli, ["conformance", str(tmp_path)])
    assert result.exit_code == 1
    assert "no recordings in this folder" in result.output


@pytest.mark.parametrize("content", [b"not gzip", b"\x1f\x8b\x08\x00cut"], ids=["text", "cut"])
def test_a_broken_archive_is_one_line(tmp_path, content):
    (tmp_path / "broken.jsonl.gz").write_bytes(content)
    result = CliRunner().invoke(cli, ["conformance", str(tmp_path)])
    assert result.exit_code == 1
    assert "broken.jsonl.gz: cannot be read" in result.output


def test_bytes_that_are_no_text_are_one_line(tmp_path):
    (tmp_path / "broken.jsonl").write_bytes(b'{"suite": "\xff\xfe"}\n')
    result = CliRunner().invoke(cli, ["conformance", str(tmp_path)])
    assert result.exit_code == 1
    assert "broken.jsonl:1:" in result.output
