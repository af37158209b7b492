import pytest

from pykueue.apiserver.http import routes


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/pods?watch=true", ("watch", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/watch/pods", ("watch", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "namespaces", "a", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "namespaces", "a", "a", "finalize")),
        ("POST", "/apis/batch/v1/namespaces/a/jobs", ("create", "batch", "v1", "jobs", "a", "", "")),
        ("PATCH", "/apis/batch/v1/namespaces/a/jobs/j/status", ("patch", "batch", "v1", "jobs", "a", "j", "status")),
        ("DELETE", "/apis/batch/v1/namespaces/a/jobs", ("deletecollection", "batch", "v1", "jobs", "a", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p/log?follow=1", ("get", "", "v1", "pods", "a", "p", "log")),
        ("GET", "/apis/g/v1/things/sl%2Fash", ("get", "g", "v1", "things", "", "sl/ash", "")),
        ("HEAD", "/api/v1/pods?watch=1", ("head", "", "v1", "pods", "", "", "")),
        ("GET", "/version", ("get", "", "", "", "", "", "")),
        ("GET", "/apis/batch/v1", ("get", "", "", "", "", "", "")),
    ],
)
def test_a_path_means(method, target, expected):
    path, query = routes.split_target(target)
    route = routes.parse(method, path, query)
    actual = (route.verb, route.group, route.version, route.plural, route.namespace, route.name, route.subresource)
    assert actual == expected


def test_exec_needs_the_permission_to_create():
    access = routes.parse("GET", "/api/v1/namespaces/ml/pods/p/exec", {"command": "ls"}).access_request()
    assert (access.verb, access.subresource) == ("create", "exec")
