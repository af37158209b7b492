from pathlib import Path

import pytest
from tests.lint.configurations import lint
from tests.lint.sound_sets import SOUND

from pykueue.api.manifest_validation import Severity
from pykueue.cli import manifest_files
from pykueue.lint import checks

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = {
    "000-ray-cluster-preemption": (".",),
    "001-pytorch-gang": ("cluster-queue.yaml", "local-queue.yaml", "resource-flavor.yaml", "pytorch-job.yaml"),
    "002-ray-job-priorities": (".",),
    "003-gpu-preemption": (".",),
    "004-ray-job-queueing": ("kueue-resources.yaml", "prod"),
    "005-multikueue": ("worker.yaml", "first-job.yaml"),
}
"""The files of one state of each example; some folders have several states."""


def serious(findings):
    return [f"{finding.subject}: {finding.message}" for finding in findings if finding.level is not Severity.NOTE]


def test_there_are_forty_sound_sets():
    assert len(SOUND) + len(FOLDERS) >= 40


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_a_sound_set(name):
    assert not serious(lint(SOUND[name]))


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_found_in_an_example(folder):
    documents, _ = manifest_files.read(str(EXAMPLES / folder / name) for name in FOLDERS[folder])
    manifests = [document for document in documents if Path(document.file).name != "demo.yaml"]  # steps of `demo`
    assert not serious(checks.of_documents(manifests))
