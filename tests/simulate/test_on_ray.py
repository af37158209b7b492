"""Variants on a local Ray cluster: skipped where Ray is not installed."""

from pathlib import Path

import pytest

from pykueue import simulate
from pykueue.simulate import on_ray, planning, what_if
from pykueue.simulate.sources.rows import SourceError

EXAMPLE = Path(__file__).parents[2] / "examples" / "planning"


@pytest.fixture
def plan():
    pytest.importorskip("ray", reason="Ray is not installed (`pip install pykueue[ray]`)")
    return simulate.plan(EXAMPLE / "queues.yaml", jobs=EXAMPLE / "jobs.csv")


def variants():
    settings = what_if.parse("clusterqueue/research.nominalQuota[gpu]=8..12:4")
    return [what_if.Variant(name=setting.text, settings=(setting,)) for setting in settings]


def test_variants_on_ray_give_what_they_give_here(plan):
    assert list(on_ray.run_all(plan, variants(), "local")) == list(planning.run_all(plan, variants(), processes=1))


def test_an_address_without_a_cluster_is_an_error_with_a_remedy(plan):
    with pytest.raises(SourceError, match="no Ray cluster at auto"):
        list(on_ray.run_all(plan, variants(), "auto"))
