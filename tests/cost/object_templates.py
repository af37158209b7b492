"""Valid objects of many kinds, which the fuzzer changes: what is nearly valid goes furthest."""

POD_SPEC = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "command": ["sh", "-c", "echo a"],
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "name": "http"}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "n1", "items": [{"key": "a", "path": "p/q"}]}}],
    "restartPolicy": "Never",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
}
LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
SELECTOR = {"matchLabels": LABELS}
SERVED = {"metadata": {"labels": LABELS}, "spec": {**POD_SPEC, "restartPolicy": "Always"}}
DEPLOYMENT = {"spec": {"replicas": 1, "selector": SELECTOR, "template": SERVED}}
SERVICE = {"spec": {"selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}], "type": "ClusterIP"}}
JOB = {"spec": {"parallelism": 1, "completions": 1, "suspend": True, "backoffLimit": 0, "template": TEMPLATE}}
JOB_TEMPLATE = {"metadata": {"labels": LABELS}, "spec": JOB["spec"]}
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
POD_SETS = [{"name": "main", "count": 1, "template": TEMPLATE}]
QUOTA = {"name": "cpu", "nominalQuota": "5"}
GROUPS = [{"coveredResources": ["cpu"], "flavors": [{"name": "n1", "resources": [QUOTA]}]}]
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^(a+)+$", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": "self.a.size() > 1", "message": "m"}],
        }
    },
}
CRD = {
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ".spec.a"}],
            }
        ],
    }
}
REPLICA_SPECS = {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": TEMPLATE}}
RAY_CLUSTER = {
    "headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE},
    "workerGroupSpecs": [
        {
            "groupName": "g",
            "replicas": 1,
            "minReplicas": 0,
            "maxReplicas": 2,
            "rayStartParams": {},
            "template": TEMPLATE,
        }
    ],
}
WORKLOAD = {"spec": {"queueName": "n1", "podSets": POD_SETS, "priority": 1, "active": True}}

NAMESPACED = {
    "api/v1 pods": {"spec": POD_SPEC},
    "api/v1 configmaps": {"data": {"a": "b"}, "binaryData": {"c": "QQ=="}},
    "api/v1 secrets": {"type": "Opaque", "stringData": {"a": "b"}},
    "api/v1 services": SERVICE,
    "api/v1 serviceaccounts": {"automountServiceAccountToken": False},
    "api/v1 events": {"involvedObject": {"kind": "Pod", "name": "n1"}, "reason": "R", "message": "m", "type": "Normal"},
    "api/v1 persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "api/v1 resourcequotas": {"spec": {"hard": {"pods": "100", "count/configmaps": "100"}}},
    "api/v1 limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "api/v1 podtemplates": {"template": TEMPLATE},
    "api/v1 replicationcontrollers": {"spec": {"replicas": 1, "selector": LABELS, "template": SERVED}},
    "apis/batch/v1 jobs": JOB,
    "apis/batch/v1 cronjobs": {"spec": {"schedule": "*/5 * * * *", "jobTemplate": JOB_TEMPLATE, "suspend": True}},
    "apis/apps/v1 deployments": DEPLOYMENT,
    "apis/apps/v1 replicasets": DEPLOYMENT,
    "apis/apps/v1 statefulsets": {"spec": {**DEPLOYMENT["spec"], "serviceName": "n1"}},
    "apis/apps/v1 daemonsets": {"spec": {"selector": SELECTOR, "template": SERVED}},
    "apis/events.k8s.io/v1 events": {"reason": "R", "note": "n", "type": "Normal", "action": "A"},
    "apis/coordination.k8s.io/v1 leases": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
    "apis/policy/v1 poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "apis/networking.k8s.io/v1 networkpolicies": {"spec": {"podSelector": SELECTOR}},
    "apis/rbac.authorization.k8s.io/v1 roles": {"rules": RULES},
    "apis/rbac.authorization.k8s.io/v1 rolebindings": {
        "roleRef": ROLE_REF,
        "subjects": [{"kind": "ServiceAccount", "name": "n1", "namespace": "default"}],
    },
    "apis/kueue.x-k8s.io/v1beta2 localqueues": {"spec": {"clusterQueue": "n1"}},
    "apis/kueue.x-k8s.io/v1beta1 localqueues": {"spec": {"clusterQueue": "n1"}},
    "apis/kueue.x-k8s.io/v1beta2 workloads": WORKLOAD,
    "apis/kueue.x-k8s.io/v1beta1 workloads": WORKLOAD,
    "apis/kubeflow.org/v1 pytorchjobs": {"spec": {"pytorchReplicaSpecs": REPLICA_SPECS}},
    "apis/kubeflow.org/v2beta1 mpijobs": {"spec": {"mpiReplicaSpecs": REPLICA_SPECS}},
    "apis/jobset.x-k8s.io/v1alpha2 jobsets": {
        "spec": {"replicatedJobs": [{"name": "r", "replicas": 1, "template": JOB_TEMPLATE}]}
    },
    "apis/ray.io/v1 rayjobs": {"spec": {"entrypoint": "a", "rayClusterSpec": RAY_CLUSTER}},
    "apis/ray.io/v1 rayclusters": {"spec": RAY_CLUSTER},
    "apis/ray.io/v1 rayservices": {"spec": {"rayClusterConfig": RAY_CLUSTER, "serveConfigV2": "applications: []"}},
    "apis/trainer.kubeflow.org/v1alpha1 trainjobs": {
        "spec": {"runtimeRef": {"name": "n1"}, "trainer": {"numNodes": 2, "image": "i"}}
    },
    "apis/leaderworkerset.x-k8s.io/v1 leaderworkersets": {
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}}
    },
    "apis/resource.k8s.io/v1 resourceclaims": {
        "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "n1"}}]}}
    },
    "apis/fuzz.example.com/v1 things": {"spec": {"a": "aaa"}},
}
"""The body of a valid object by path and plural."""

CLUSTER_SCOPED = {
    "apis/kueue.x-k8s.io/v1beta2 clusterqueues": {"spec": {"resourceGroups": GROUPS, "cohortName": "n1"}},
    "apis/kueue.x-k8s.io/v1beta1 clusterqueues": {"spec": {"resourceGroups": GROUPS, "cohort": "n1"}},
    "apis/kueue.x-k8s.io/v1beta2 cohorts": {"spec": {"parentName": "n2", "resourceGroups": GROUPS}},
    "apis/kueue.x-k8s.io/v1beta2 resourceflavors": {"spec": {"nodeLabels": {"a": "b"}}},
    "apis/kueue.x-k8s.io/v1beta2 workloadpriorityclasses": {"value": 5, "description": "d"},
    "apis/kueue.x-k8s.io/v1beta2 admissionchecks": {"spec": {"controllerName": "example.com/c"}},
    "apis/kueue.x-k8s.io/v1beta2 topologies": {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}},
    "apis/scheduling.k8s.io/v1 priorityclasses": {"value": 5, "globalDefault": False},
    "apis/resource.k8s.io/v1 deviceclasses": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}},
    "apis/apiextensions.k8s.io/v1 customresourcedefinitions": CRD,
    "api/v1 nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "metadata": {"labels": {"a": "b"}}},
    "api/v1 namespaces": {"metadata": {"labels": {"a": "b"}}},
    "apis/rbac.authorization.k8s.io/v1 clusterroles": {"rules": RULES},
}
CLUSTER_NAMES = {
    "customresourcedefinitions": "things.fuzz.example.com",
}
"""The names of kinds whose names are not free."""
