"""Volumes of a pod become directories, or the pod says why they cannot."""

import pytest

from pykueue.cluster.kubelet import volumes
from pykueue.cluster.kubelet.environment import MissingSourceError


@pytest.mark.parametrize(
    "source", [{"persistentVolumeClaim": {"claimName": "checkpoints"}}, {"nfs": {"server": "s", "path": "/"}}]
)
def test_a_volume_that_would_not_stay_is_refused(tmp_path, source):
    """A directory of the pod would be deleted with the pod."""
    pod = {"metadata": {"uid": "u"}, "spec": {"volumes": [{"name": "data", **source}]}}
    with pytest.raises(MissingSourceError, match=r'volume "data": volumes of type .* use a hostPath volume'):
        volumes.prepare(pod, tmp_path, lambda _kind, _name: None)


def test_a_volume_without_a_source_is_an_empty_directory(tmp_path):
    pod = {"metadata": {"uid": "u"}, "spec": {"volumes": [{"name": "scratch"}]}}
    directories = volumes.prepare(pod, tmp_path, lambda _kind, _name: None)
    assert list(directories["scratch"].iterdir()) == []
