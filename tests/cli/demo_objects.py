"""Workloads and ClusterQueues from which a demo computes its state."""


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
        "status": {"conditions": [{"type": condition, "status": "True"} for condition in conditions]},
    }
