"""Workloads and ClusterQueues as a demo's board reads them."""


def cluster_queue(name, *, nominal, used):
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": nominal}]}
    return {
        "metadata": {"name": name},
        "spec": {"cohortName": "team", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]},
        "status": {"flavorsReservation": [{"name": "default", "resources": [{"name": "cpu", "total": used}]}]},
    }


def workload(name, *conditions):
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"queueName": "queue", "podSets": [{"count": 1, "template": {"spec": {"containers": [container]}}}]},
        "status": {"conditions": [{"type": found, "status": "True"} for found in conditions]},
    }
