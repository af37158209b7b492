"""Ports of groups: a group belongs to its namespace."""

from pykueue.api.reserved_keys import LOCAL_PORTS, PORT_GROUP
from pykueue.cluster.runtimes.port_mapping import PortMappings


def pod(namespace, ports):
    annotations = {PORT_GROUP: "trainers", LOCAL_PORTS: ports}
    return {"metadata": {"name": "p", "namespace": namespace, "annotations": annotations}}


def test_groups_of_the_same_name_in_two_namespaces_share_nothing(tmp_path):
    first = PortMappings(tmp_path).mapping_of(pod("ml", "80"))
    other = PortMappings(tmp_path).mapping_of(pod("other", "81"))
    assert (set(first.ports), set(other.ports)) == ({"80"}, {"81"})
    assert len(list(tmp_path.iterdir())) == 2


def test_a_group_keeps_its_ports(tmp_path):
    first = PortMappings(tmp_path).mapping_of(pod("ml", "80"))
    assert PortMappings(tmp_path).mapping_of(pod("ml", "80,81")).ports["80"] == first.ports["80"]
