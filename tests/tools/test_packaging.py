"""What is in the package, and that two builds of it are equal."""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools import release

ROOT = Path(__file__).parents[2]
CARRIED = (
    "pykueue/__init__.pyi",
    "pykueue/py.typed",
    "pykueue/dashboard/static/index.html",
    "pykueue/charts/pykueue/Chart.yaml",
    "pykueue/charts/pykueue/crds/",
    "pykueue/examples/000-ray-cluster-preemption/demo.yaml",
    "pykueue/api/builtin/kubernetes.types",
)


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """The files of two builds, one after the other."""
    return [release.build(tmp_path_factory.mktemp("dist")) for _ in range(2)]


def test_two_builds_are_equal(builds):
    first, second = ([hashlib.sha256(path.read_bytes()).hexdigest() for path in paths] for paths in builds)
    assert len(first) == 2
    assert first == second


def test_wheel_carries_page_chart_examples_and_types(builds):
    names = zipfile.ZipFile(builds[0][0]).namelist()
    assert [wanted for wanted in CARRIED if not any(name.startswith(wanted) for name in names)] == []
    assert [name for name in names if name.startswith(("tests/", "src/"))] == []


def test_wheel_has_the_commands_and_the_pytest_plugin(builds):
    wheel = zipfile.ZipFile(builds[0][0])
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    text = wheel.read(name).decode()
    assert "pykueue = pykueue.cli.main:main" in text
    assert "[pytest11]\npykueue = pykueue.pytest_plugin" in text


def test_source_distribution_can_be_built_again(builds, tmp_path):
    with tarfile.open(builds[0][1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert hashlib.sha256(wheel.read_bytes()).digest() == hashlib.sha256(builds[0][0].read_bytes()).digest()


def test_release_notes_are_the_section_of_the_version():
    changelog = "# Changelog\n\n## [Unreleased]\n- new\n\n## [0.1.0] - 2026-01-01\n- first\n"
    assert release.release_notes(changelog, "0.1.0") == "# pykueue 0.1.0\n\n- first\n"
    assert release.release_notes(changelog, "0.2.0") == "# pykueue 0.2.0\n\n- new\n"
