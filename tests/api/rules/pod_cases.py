"""Pod specs that Kubernetes 1.36 refuses, with its words, and specs that it accepts.

A case is YAML: fields of the pod's spec, and `container`, which is merged into its one container.
`PATH` in an expected error stands for the path of the spec.
"""

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"

REFUSED = [
    # volumes
    ("{volumes: [{name: ../../.., emptyDir: {}}]}", f'PATH.volumes[0].name: Invalid value: "../../..": {LABEL}'),
    ("{volumes: [{name: a/b, emptyDir: {}}]}", "PATH.volumes[0].name: Invalid value"),
    ("{volumes: [{name: '..', emptyDir: {}}]}", "PATH.volumes[0].name: Invalid value"),
    ('{volumes: [{name: "a\\0b", emptyDir: {}}]}', "PATH.volumes[0].name: Invalid value"),
    ("{volumes: [{name: A, emptyDir: {}}]}", "PATH.volumes[0].name: Invalid value"),
    ("{volumes: [{emptyDir: {}}]}", "PATH.volumes[0].name: Required value"),
    (f"{{volumes: [{{name: {'a' * 64}, emptyDir: {{}}}}]}}", "must be no more than 63 characters"),
    (
        "{volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}",
        'PATH.volumes[1].name: Duplicate value: "a"',
    ),
    (
        "{volumes: [{name: a, emptyDir: {}, hostPath: {path: /x}}]}",
        "PATH.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (
        "{volumes: [{name: a, emptyDir: {sizeLimit: '-1'}}]}",
        "PATH.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
    ),
    ("{volumes: [{name: a, hostPath: {}}]}", "PATH.volumes[0].hostPath.path: Required value"),
    (
        "{volumes: [{name: a, hostPath: {path: /a/../b}}]}",
        "PATH.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        "{volumes: [{name: a, hostPath: {path: /a, type: Folder}}]}",
        'PATH.volumes[0].hostPath.type: Unsupported value: "Folder": supported values: "", "BlockDevice"',
    ),
    ("{volumes: [{name: a, secret: {}}]}", "PATH.volumes[0].secret.secretName: Required value"),
    ("{volumes: [{name: a, configMap: {}}]}", "PATH.volumes[0].configMap.name: Required value"),
    ("{volumes: [{name: a, persistentVolumeClaim: {}}]}", "persistentVolumeClaim.claimName: Required value"),
    (
        "{volumes: [{name: a, secret: {secretName: s, defaultMode: 512}}]}",
        f"PATH.volumes[0].secret.defaultMode: Invalid value: 512: {MODE}",
    ),
    (
        "{volumes: [{name: a, configMap: {name: c, defaultMode: -1}}]}",
        f"PATH.volumes[0].configMap.defaultMode: Invalid value: -1: {MODE}",
    ),
    (
        "{volumes: [{name: a, configMap: {name: c, items: [{key: k, path: ../up}]}}]}",
        "PATH.volumes[0].configMap.items[0].path: Invalid value: \"../up\": must not contain '..'",
    ),
    (
        "{volumes: [{name: a, configMap: {name: c, items: [{key: k, path: /etc/passwd}]}}]}",
        'PATH.volumes[0].configMap.items[0].path: Invalid value: "/etc/passwd": must be a relative path',
    ),
    (
        "{volumes: [{name: a, configMap: {name: c, items: [{key: k, path: ..data}]}}]}",
        "PATH.volumes[0].configMap.items[0].path: Invalid value: \"..data\": must not start with '..'",
    ),
    (
        "{volumes: [{name: a, secret: {secretName: c, items: [{key: k, path: a/../../b}]}}]}",
        "PATH.volumes[0].secret.items[0].path: Invalid value",
    ),
    (
        "{volumes: [{name: a, secret: {secretName: c, items: [{path: b}]}}]}",
        "PATH.volumes[0].secret.items[0].key: Required value",
    ),
    (
        "{volumes: [{name: a, secret: {secretName: c, items: [{key: k, path: b, mode: 4096}]}}]}",
        f"PATH.volumes[0].secret.items[0].mode: Invalid value: 4096: {MODE}",
    ),
    (
        "{volumes: [{name: a, downwardAPI: {items: [{path: ../x, fieldRef: {fieldPath: metadata.name}}]}}]}",
        "PATH.volumes[0].downwardAPI.path: Invalid value: \"../x\": must not contain '..'",
    ),
    (
        "{volumes: [{name: a, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: spec.nodeName}}]}}]}",
        (
            'PATH.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: '
            '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"'
        ),
    ),
    (
        "{volumes: [{name: a, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: spec.secrets}}]}}]}",
        "error converting fieldPath: field label not supported: spec.secrets",
    ),
    (
        "{volumes: [{name: a, downwardAPI: {items: [{path: x}]}}]}",
        "PATH.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
    ),
    (
        "{volumes: [{name: a, downwardAPI: {items: [{path: x, resourceFieldRef: {resource: limits.cpu}}]}}]}",
        "PATH.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{secret: {name: s, items: [{key: k, path: /x}]}}]}}]}",
        'PATH.volumes[0].projected.sources[0].secret.items[0].path: Invalid value: "/x": must be a relative path',
    ),
    (
        (
            "{volumes: [{name: a, projected: {sources: [{configMap: {name: s, items: [{key: k, path: x}]}}, "
            "{secret: {name: t, items: [{key: k, path: x}]}}]}}]}"
        ),
        'PATH.volumes[0].projected: Invalid value: "t": conflicting duplicate paths',
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{configMap: {name: s}, secret: {name: t}}]}}]}",
        "PATH.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: ../t}}]}}]}",
        "PATH.volumes[0].projected.path: Invalid value: \"../t\": must not contain '..'",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 599}}]}}]}",
        "expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
    ),
    (
        (
            "{volumes: [{name: a, projected: {sources: [{downwardAPI: {items: "
            "[{path: ../x, fieldRef: {fieldPath: metadata.name}}]}}]}}]}"
        ),
        "PATH.volumes[0].projected.sources[0].downwardAPI.path: Invalid value",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: b, path: ../x}}]}}]}",
        "clusterTrustBundle.path: Invalid value",
    ),
    ("{volumes: [{name: a, gitRepo: {repository: r, directory: ../x}}]}", "gitRepo.directory: Invalid value"),
    ("{volumes: [{name: a, nfs: {server: s, path: x}}]}", 'nfs.path: Invalid value: "x": must be an absolute path'),
    ("{volumes: [{name: a, csi: {driver: ''}}]}", "PATH.volumes[0].csi.driver: Required value"),
    # mounts and devices
    (
        "{container: {volumeMounts: [{name: none, mountPath: /x}]}}",
        'PATH.containers[0].volumeMounts[0].name: Not found: "none"',
    ),
    (
        "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: [{name: a}]}}",
        "PATH.containers[0].volumeMounts[0].mountPath: Required value",
    ),
    (
        (
            "{volumes: [{name: a, emptyDir: {}}], container: "
            "{volumeMounts: [{name: a, mountPath: /x}, {name: a, mountPath: /x}]}}"
        ),
        'PATH.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
    ),
    (
        "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: [{name: a, mountPath: /x, subPath: /etc}]}}",
        'PATH.containers[0].volumeMounts.subPath: Invalid value: "/etc": must be a relative path',
    ),
    (
        "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: [{name: a, mountPath: /x, subPath: a/../..}]}}",
        "PATH.containers[0].volumeMounts.subPath: Invalid value: \"a/../..\": must not contain '..'",
    ),
    (
        (
            "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: "
            "[{name: a, mountPath: /x, subPathExpr: ../$(A)}]}}"
        ),
        "PATH.containers[0].volumeMounts.subPathExpr: Invalid value: \"../$(A)\": must not contain '..'",
    ),
    (
        (
            "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: "
            "[{name: a, mountPath: /x, subPath: a, subPathExpr: b}]}}"
        ),
        'volumeMounts[0].subPathExpr: Invalid value: "b": subPathExpr and subPath are mutually exclusive',
    ),
    (
        (
            "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: "
            "[{name: a, mountPath: /x, mountPropagation: Bidirectional}]}}"
        ),
        "Forbidden: Bidirectional mount propagation is available only to privileged containers",
    ),
    (
        "{volumes: [{name: a, emptyDir: {}}], container: {volumeDevices: [{name: a, devicePath: /dev/x}]}}",
        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
    ),
    (
        (
            "{volumes: [{name: a, persistentVolumeClaim: {claimName: c}}], container: "
            "{volumeDevices: [{name: a, devicePath: /dev/../x}]}}"
        ),
        "can not contain backsteps ('..')",
    ),
    # containers
    ("{container: {name: ../x}}", f'PATH.containers[0].name: Invalid value: "../x": {LABEL}'),
    ("{container: {name: ''}}", "PATH.containers[0].name: Required value"),
    ("{container: {image: ''}}", "PATH.containers[0].image: Required value"),
    ("{initContainers: [{name: c, image: x}]}", 'PATH.initContainers[0].name: Duplicate value: "c"'),
    ("{container: {imagePullPolicy: Sometimes}}", "PATH.containers[0].imagePullPolicy: Unsupported value"),
    ("{container: {terminationMessagePolicy: Mail}}", "PATH.containers[0].terminationMessagePolicy: Unsupported value"),
    (
        "{container: {env: [{name: 'a=b', value: x}]}}",
        (
            'PATH.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only '
            "of printable ASCII characters other than '='"
        ),
    ),
    ("{container: {env: [{name: '', value: x}]}}", "PATH.containers[0].env[0].name: Required value"),
    (
        "{container: {env: [{name: a, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}",
        'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        "{container: {env: [{name: a, valueFrom: {fieldRef: {fieldPath: \"metadata.name['x']\"}}}]}}",
        "field label does not support subscript: metadata.name['x']",
    ),
    (
        "{container: {env: [{name: a, valueFrom: {configMapKeyRef: {name: c, key: ../x}}}]}}",
        "env[0].valueFrom.configMapKeyRef.key: Invalid value",
    ),
    ("{container: {envFrom: [{}]}}", 'envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
    ("{container: {envFrom: [{secretRef: {name: ../x}}]}}", "envFrom[0].secretRef.name: Invalid value"),
    ("{container: {ports: [{containerPort: 0}]}}", "PATH.containers[0].ports[0].containerPort: Required value"),
    (
        "{container: {ports: [{containerPort: 65536}]}}",
        "ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
    ),
    ("{container: {ports: [{containerPort: 1, protocol: ICMP}]}}", "ports[0].protocol: Unsupported value"),
    ("{container: {ports: [{containerPort: 1, name: '-a'}]}}", "must not begin or end with a hyphen"),
    (
        "{container: {ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}]}}",
        'PATH.containers[0].ports[1].name: Duplicate value: "a"',
    ),
    (
        "{container: {ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]}}",
        'PATH.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"',
    ),
    (
        "{hostNetwork: true, container: {ports: [{containerPort: 80, hostPort: 81}]}}",
        "hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
    ),
    # probes and hooks
    ("{container: {livenessProbe: {}}}", "livenessProbe: Required value: must specify a handler type"),
    ("{container: {livenessProbe: {exec: {}}}}", "livenessProbe.exec.command: Required value"),
    (
        "{container: {livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}}}",
        "livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    ("{container: {livenessProbe: {tcpSocket: {port: 0}}}}", "tcpSocket.port: Invalid value: 0"),
    (
        "{container: {livenessProbe: {httpGet: {port: 1, scheme: FTP}}}}",
        'httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
    ),
    (
        "{container: {livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}}}",
        "livenessProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    (
        "{container: {readinessProbe: {tcpSocket: {port: 1}, periodSeconds: -1}}}",
        "readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        "{container: {lifecycle: {preStop: {sleep: {seconds: 31}}}}}",
        "must be non-negative and less than terminationGracePeriodSeconds (30)",
    ),
    (
        "{initContainers: [{name: i, image: x, livenessProbe: {tcpSocket: {port: 1}}}]}",
        "Forbidden: may not be set for init containers without restartPolicy=Always",
    ),
    # resources
    (
        "{container: {resources: {requests: {cpu: '-1'}}}}",
        'PATH.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        "{container: {resources: {limits: {memory: '-1'}}}}",
        'PATH.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        "{container: {resources: {requests: {cpu: '2'}, limits: {cpu: '1'}}}}",
        'PATH.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        "{container: {resources: {requests: {nvidia.com/gpu: '1'}}}}",
        "PATH.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        "{container: {resources: {requests: {nvidia.com/gpu: '1'}, limits: {nvidia.com/gpu: '2'}}}}",
        'resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
    ),
    (
        "{container: {resources: {limits: {nvidia.com/gpu: 500m}}}}",
        'resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    (
        "{container: {resources: {limits: {pods: '1'}}}}",
        'PATH.containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard resource for containers',
    ),
    (
        "{container: {resources: {limits: {gpu: '1'}}}}",
        'resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
    ),
    (
        "{container: {resources: {claims: [{name: c}]}}}",
        'Not found: "c": must be one of the names in pod.spec.resourceClaims which is empty',
    ),
    (
        "{overhead: {cpu: '-1900m'}}",
        'PATH.overhead.limits[cpu]: Invalid value: "-1900m": must be greater than or equal',
    ),
    (
        "{resources: {requests: {cpu: 10m}}, container: {resources: {requests: {cpu: '100'}}}}",
        (
            'PATH.resources.requests[cpu]: Invalid value: "10m": must be greater than or equal to aggregate container '
            "requests of 100"
        ),
    ),
    (
        "{resources: {limits: {cpu: '1'}}, container: {resources: {limits: {cpu: '2'}}}}",
        'Invalid value: "2": must be less than or equal to pod limits of 1',
    ),
    (
        "{resources: {requests: {nvidia.com/gpu: '1'}}}",
        'PATH.resources.requests[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu"',
    ),
    ("{resources: {requests: {cpu: '-5'}}}", 'PATH.resources.requests[cpu]: Invalid value: "-5"'),
    # scheduling
    ("{nodeSelector: {'a b': c}}", "PATH.nodeSelector: Invalid value"),
    ("{schedulingGates: [{name: a}, {name: a}]}", 'PATH.schedulingGates[1]: Duplicate value: "a"'),
    ("{schedulingGates: [{name: 'a b'}]}", "PATH.schedulingGates[0]: Invalid value"),
    ("{tolerations: [{operator: Equal}]}", "operator must be Exists when `key` is empty"),
    ("{tolerations: [{key: a, operator: Exists, value: b}]}", "value must be empty when `operator` is 'Exists'"),
    ("{tolerations: [{key: a, effect: Never}]}", "PATH.tolerations[0].effect: Unsupported value"),
    (
        "{tolerations: [{key: a, tolerationSeconds: 1}]}",
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    (
        "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}",
        "nodeSelectorTerms: Required value: must have at least one node selector term",
    ),
    (
        "{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ''}]}}}",
        "topologyKey: Required value: can not be empty",
    ),
    (
        "{topologySpreadConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
        "PATH.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
    # the rest
    ("{dnsPolicy: Mine}", 'PATH.dnsPolicy: Unsupported value: "Mine"'),
    ("{dnsPolicy: None}", "PATH.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    ("{activeDeadlineSeconds: 0}", "PATH.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647"),
    ("{hostname: a.b}", f'PATH.hostname: Invalid value: "a.b": {LABEL}'),
    ("{subdomain: ../x}", "PATH.subdomain: Invalid value"),
    ("{nodeName: ../x}", f'PATH.nodeName: Invalid value: "../x": {SUBDOMAIN}'),
    ("{serviceAccountName: ../x}", "PATH.serviceAccountName: Invalid value"),
    ("{hostAliases: [{ip: nowhere}]}", "PATH.hostAliases[0].ip: Invalid value"),
    ("{hostAliases: [{ip: 10.0.0.1, hostnames: [a/b]}]}", "PATH.hostAliases[0].hostnames[0]: Invalid value"),
    ("{os: {name: beos}}", 'PATH.os: Unsupported value: "beos"'),
    ("{resourceClaims: [{name: a}]}", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
    ("{securityContext: {runAsUser: -1}}", "runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    (
        "{container: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x}}}}",
        "seccompProfile.localhostProfile: Invalid value: \"../x\": must not contain '..'",
    ),
    (
        "{container: {securityContext: {allowPrivilegeEscalation: false, privileged: true}}}",
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    ),
]

ACCEPTED = [
    "{}",
    "{volumes: [{name: a}]}",
    "{volumes: [{name: a, hostPath: {path: /a, type: Directory}}]}",
    "{volumes: [{name: a, configMap: {name: c, items: [{key: k, path: a/b/c.txt, mode: 511}]}}]}",
    "{volumes: [{name: a, configMap: {name: c, items: [{key: k, path: a..b}]}}]}",
    "{volumes: [{name: a, secret: {secretName: s, defaultMode: 0}}]}",
    "{volumes: [{name: a, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: metadata.labels}}]}}]}",
    (
        "{volumes: [{name: a, downwardAPI: {items: "
        "[{path: x, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}]}"
    ),
    "{volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: c}}]}}]}",
    (
        "{volumes: [{name: a, persistentVolumeClaim: {claimName: c}}], container: "
        "{volumeDevices: [{name: a, devicePath: /dev/x}]}}"
    ),
    (
        "{volumes: [{name: a, emptyDir: {}}], container: {volumeMounts: "
        "[{name: a, mountPath: /x, subPath: a/b}, {name: a, mountPath: /y, subPathExpr: $(A)/b}]}}"
    ),
    "{container: {env: [{name: A.b-c, value: x}, {name: a b, value: y}]}}",
    "{container: {env: [{name: a, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}]}}",
    "{container: {ports: [{containerPort: 80, name: http}, {containerPort: 80, protocol: UDP}]}}",
    "{container: {livenessProbe: {httpGet: {port: http}}, readinessProbe: {grpc: {port: 9}, successThreshold: 3}}}",
    "{container: {lifecycle: {preStop: {sleep: {seconds: 5}}}}}",
    "{initContainers: [{name: i, image: x, restartPolicy: Always, startupProbe: {exec: {command: [a]}}}]}",
    "{container: {resources: {requests: {cpu: 1m}, limits: {nvidia.com/gpu: '2', memory: 1Gi}}}}",
    "{container: {resources: {requests: {cpu: '0'}}}}",
    "{resources: {requests: {cpu: '100'}}, container: {resources: {requests: {cpu: '100'}}}}",
    "{resources: {limits: {cpu: '2', memory: 1Gi}}, container: {resources: {requests: {cpu: '1'}}}}",
    "{schedulingGates: [{name: example.com/a}, {name: b}]}",
    "{tolerations: [{operator: Exists}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}]}",
    (
        "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        "[{matchExpressions: [{key: a, operator: Gt, values: ['3']}], "
        "matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}"
    ),
    "{hostNetwork: true, container: {ports: [{containerPort: 80, hostPort: 80}]}}",
    "{hostAliases: [{ip: '::1', hostnames: [a.b]}], hostname: h, subdomain: s}",
    "{securityContext: {runAsUser: 65534, fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}}",
]
"""Specs that Kubernetes accepts in pods and in templates."""
