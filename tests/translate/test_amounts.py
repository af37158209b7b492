import pytest

from pykueue.engine.quota.amounts import UNLIMITED
from pykueue.translate import amounts


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "0.0001", 1),
        ("memory", "1Gi", 2**30),
        ("example.com/gpu", "8", 8),
        ("cpu", "1E", UNLIMITED),
        ("memory", "8Ei", UNLIMITED),
        ("memory", "7Ei", 7 * 2**60),
    ],
)
def test_a_quota_becomes_an_integer(resource, text, amount):
    assert amounts.of_quota(resource, text) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("memory", 10**9, "1G"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("ephemeral-storage", 1024, "1Ki"),
        ("example.com/memory", 1024, "1024"),
        ("pods", 1000, "1k"),
    ],
)
def test_an_amount_is_shown_in_the_format_of_its_resource(resource, amount, text):
    assert amounts.to_text(resource, amount) == text


def test_scaling_saturates():
    assert amounts.scaled({"cpu": 2**62}, 3) == {"cpu": UNLIMITED}


def test_rescaling_rounds_each_pods_share_down():
    assert amounts.rescaled({"cpu": 10}, from_count=3, to_count=2) == {"cpu": 6}


def test_nothing_of_no_pods_is_still_nothing():
    assert amounts.rescaled({"cpu": 0}, from_count=0, to_count=0) == {"cpu": 0}


def test_a_missing_resource_fits_no_pod():
    assert amounts.count_in({"cpu": 1, "example.com/gpu": 1}, {"cpu": 5}) == 0


def test_a_capacity_below_its_use_fits_no_pod():
    assert amounts.count_in({"cpu": 1}, {"cpu": -3}) == 0
