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
