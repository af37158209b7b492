import pytest

from pykueue.apiserver.tables import jsonpath

WORKLOAD = {
    "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "spec": {"podSets": [{"name": "head", "count": 1}, {"name": "workers", "count": 4}]},
    "status": {
        "conditions": [{"type": "Admitted", "status": "True"}, {"type": "Finished", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.podSets[0].name", ["head"]),
        (".spec.podSets[-1].name", ["workers"]),
        (".spec.podSets[*].count", [1, 4]),
        (".spec.podSets[0:1].count", [1]),
        ('.status.conditions[?(@.type=="Admitted")].status', ["True"]),
        (".status.conditions[?(@.type=='Finished')].status", ["False"]),
        ("{.spec.podSets[?(@.count>1)].name}", ["workers"]),
        (r".metadata.labels.kueue\.x-k8s\.io/queue-name", ["main"]),
        (".metadata.labels['kueue.x-k8s.io/queue-name']", ["main"]),
        (".status.admission.clusterQueue", []),
        (".spec.podSets[7].name", []),
        (".spec.podSets[?(@.absent)].name", []),
        (".spec.podSets[?(@.name>1)].name", []),
    ],
)
def test_a_path_finds(path, expected):
    assert jsonpath.find(path, WORKLOAD) == expected


@pytest.mark.parametrize("path", [".a[", ".a[b]", ".a[?(b)]", "..a", ".a[?(@.b==c)]"])
def test_a_path_that_cannot_be_followed_is_refused(path):
    with pytest.raises(jsonpath.PathError):
        jsonpath.find(path, {})
