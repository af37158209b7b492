import json

import pytest
import yaml
from click.testing import CliRunner
from tests.lint.configurations import flavor, job, local_queue, queue

from pykueue.api import resources
from pykueue.cli.main import cli
from pykueue.lint import checks

SOUND = (flavor(), queue(), local_queue())
FAULTY = (*SOUND, job(cpu=9))


@pytest.fixture
def lint(tmp_path):
    def run(objects, *options):
        path = tmp_path / "queues.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return CliRunner().invoke(cli, ["lint", "-f", str(path), *options])

    return run


def test_a_sound_set_ends_with_zero(lint):
    result = lint(SOUND)
    assert (result.exit_code, result.output) == (0, "nothing found\n")


def test_a_fault_ends_with_one_and_names_line_rule_and_remedy(lint):
    result = lint(FAULTY)
    assert result.exit_code == 1
    assert "queues.yaml:30: error: Job default/job: " in result.output
    assert "[job-too-large]" in result.output
    assert "Ask for less" in result.output


def test_files_need_no_option(tmp_path):
    path = tmp_path / "queues.yaml"
    path.write_text(yaml.safe_dump_all(FAULTY))
    assert "[job-too-large]" in CliRunner().invoke(cli, ["lint", str(path)]).output


def test_the_example_is_printed(lint):
    assert "    job job-job-" in lint(FAULTY).output


def test_an_ignored_rule_is_left_out(lint):
    assert lint(FAULTY, "--ignore", "job-too-large").exit_code == 0


def test_an_unknown_rule_is_refused(lint):
    result = lint(SOUND, "--ignore", "job-too-big")
    assert "there is no rule job-too-big" in result.output


def test_notes_are_printed_when_asked_for(lint):
    result = lint(SOUND, "--verbose")
    assert "note: ClusterQueue team: " in result.output
    assert result.exit_code == 0


def test_notes_may_fail_a_build(lint):
    assert lint(SOUND, "--fail-on", "note").exit_code == 1


def test_json_has_the_example(lint):
    (finding,) = json.loads(lint(FAULTY, "-o", "json").output)["findings"]
    assert finding["rule"] == "job-too-large"
    assert finding["example"][0].endswith("asks team for 9 cpu, with nothing else admitted")


def test_sarif_names_file_line_and_rule(lint):
    (run,) = json.loads(lint(FAULTY, "-o", "sarif").output)["runs"]
    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("job-too-large", "error")
    assert location["artifactLocation"]["uri"].endswith("queues.yaml")
    assert location["region"]["startLine"] == 30
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {rule.id for rule in checks.RULES}


@pytest.mark.parametrize("output", ["text", "json", "sarif"])
def test_a_refused_object_is_a_finding(lint, output):
    result = lint([*SOUND, queue("other", queueStrategy="StrictFIFO")], "-o", output)
    message = "unknown field \"spec.queueStrategy\"; did you mean 'queueingStrategy'?"
    assert (result.exit_code, result.stderr) == (1, "")
    if output == "text":
        assert f"queues.yaml:36: error: ClusterQueue other: {message} [invalid-manifest]\n" in result.stdout
        assert result.stdout.endswith("\n1 error\n")
    elif output == "json":
        (finding,) = json.loads(result.stdout)["findings"]
        assert (finding["rule"], finding["message"], finding["line"]) == ("invalid-manifest", message, 36)
    else:
        (finding,) = json.loads(result.stdout)["runs"][0]["results"]
        assert (finding["ruleId"], finding["level"]) == ("invalid-manifest", "error")
        assert message in finding["message"]["text"]
        assert finding["locations"][0]["physicalLocation"]["region"]["startLine"] == 36


def test_a_file_that_is_no_yaml_is_a_finding(tmp_path):
    path = tmp_path / "queues.yaml"
    path.write_text("kind: [\n")
    result = CliRunner().invoke(cli, ["lint", "-o", "sarif", str(path)])
    (finding,) = json.loads(result.stdout)["runs"][0]["results"]
    assert (result.exit_code, finding["ruleId"]) == (1, "invalid-manifest")
    assert not finding["message"]["text"].startswith(":")


def test_a_job_of_a_misspelled_queue_fails_a_build(lint):
    result = lint([*SOUND, job(queue_name="trian", cpu=1)])
    assert result.exit_code == 1
    assert "LocalQueue trian in namespace default; did you mean train? [unknown-local-queue]" in result.output


def test_the_rules_are_listed():
    output = CliRunner().invoke(cli, ["lint", "--rules"]).output
    assert all(rule.id in output for rule in checks.RULES)


def test_the_queues_of_a_cluster_are_checked(cluster):
    for resource, obj in zip((resources.RESOURCE_FLAVOR, resources.CLUSTER_QUEUE), SOUND, strict=False):
        cluster.create(resource, obj)
    result = cluster.pykueue("lint")
    assert "warning: ClusterQueue team: nobody can use 8 cpu of flavor default [quota-unusable]" in result.output
