from hypothesis import given
from hypothesis import strategies as st

from pykueue.api.kueue.topology_encoding import (
    TopologyDomainAssignment,
    decode,
    encode,
    encode_in_runs,
)

HOSTS = st.from_regex(r"[ab]{1,2}(-[ab]{1,2}){0,3}", fullmatch=True)
DOMAINS = st.lists(st.builds(TopologyDomainAssignment, st.tuples(HOSTS), st.integers(1, 3)), max_size=12)
LEVELS = ["kubernetes.io/hostname"]


@given(DOMAINS, st.booleans())
def test_decoding_gives_back_the_domains(domains, by_hostname_prefix):
    assert decode(encode(LEVELS, domains, by_hostname_prefix=by_hostname_prefix)) == domains


@given(DOMAINS)
def test_runs_give_back_the_domains(domains):
    assert decode(encode_in_runs(LEVELS, domains)) == domains


def test_prefix_and_suffix_never_overlap():
    (part,) = encode(["rack"], [TopologyDomainAssignment(("ababa",), 1), TopologyDomainAssignment(("aba",), 1)])[
        "slices"
    ]
    assert part["valuesPerLevel"] == [{"individual": {"roots": ["ab", ""], "suffix": "aba"}}]


def test_long_runs_of_hosts_become_slices():
    domains = [
        TopologyDomainAssignment((f"pool-{pool}-nodes-with-a-long-name-{node}",), 1)
        for pool in "ab"
        for node in range(20)
    ]
    assert [part["domainCount"] for part in encode(LEVELS, domains)["slices"]] == [20, 20]
