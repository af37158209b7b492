import yaml
from click.testing import CliRunner

from pykueue.cli.convert import convert

OLD = """\
# a queue
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: queue
spec:
  cohort: team
---
apiVersion: batch/v1
kind: Job
metadata:
  name: job
  annotations: {build: "0644", on: "yes"}
"""


def documents(text):
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def test_kueue_objects_are_converted_and_others_kept(tmp_path):
    file = tmp_path / "old.yaml"
    file.write_text(OLD)
    result = CliRunner().invoke(convert, ["-f", str(file), "--to", "v1beta2"])
    queue, job = documents(result.stdout)
    assert (queue["apiVersion"], queue["spec"]) == ("kueue.x-k8s.io/v1beta2", {"cohortName": "team"})
    assert job["metadata"]["annotations"] == {"build": "0644", "true": "yes"}


def test_stdin_there_and_back_is_the_same():
    new = CliRunner().invoke(convert, ["-f", "-", "--to", "v1beta2"], input=OLD).stdout
    back = CliRunner().invoke(convert, ["-f", "-", "--to", "v1beta1"], input=new).stdout
    assert documents(back)[0] == documents(OLD)[0]


def test_a_broken_file_is_named_with_its_line(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("a: 1\n---\nb: [\n")
    result = CliRunner().invoke(convert, ["-f", str(file)])
    assert result.exit_code == 1
    assert f"{file}:4: not YAML" in result.stderr


def test_a_missing_file_is_one_line():
    result = CliRunner().invoke(convert, ["-f", "/nowhere"])
    assert (result.exit_code, result.stderr) == (1, "Error: /nowhere: No such file or directory\n")
