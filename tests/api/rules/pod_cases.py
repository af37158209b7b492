"""Pod specs that Kubernetes 1.36 refuses, with its words, and specs that it accepts.

A case is YAML: fields of the pod's spec, and `container`, which is merged into its one container.
`PATH` in an expected error stands for the path of the spec.
"""

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"

REFUSED = [
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
    (
        (
            "{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{topologyKey: a, matchLabelKeys: [x]}]}}}"
        ),
        "matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
    ),
    (
        (
            "{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{topologyKey: a, labelSelector: {}, matchLabelKeys: [x], mismatchLabelKeys: [x]}]}}}"
        ),
        "exists in both matchLabelKeys and mismatchLabelKeys",
    ),
    (
        (
            "{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, "
            "labelSelector: {matchLabels: {x: y}, matchExpressions: [{key: x, operator: Exists}]}, matchLabelKeys: [x]}]}}}"
        ),
        (
            "PATH.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: "
            'Invalid value: "x": exists in both matchLabelKeys and labelSelector'
        ),
    ),
    (
        (
            "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, "
            "labelSelector: {matchExpressions: [{key: x, operator: Exists}, {key: x, operator: Exists}]}, "
            "matchLabelKeys: [w, x]}]}"
        ),
        'PATH.topologySpreadConstraints[0][1]: Invalid value: "x": exists in both matchLabelKeys and labelSelector',
    ),
    ("{tolerations: [{key: a, operator: Lt, value: '3'}]}", 'PATH.tolerations[0].operator: Unsupported value: "Lt"'),
    # the rest
    ("{securityContext: {supplementalGroupsPolicy: Some}}", "supplementalGroupsPolicy: Unsupported value"),
    ("{securityContext: {sysctls: [{name: ../x, value: a}]}}", "PATH.securityContext.sysctls[0].name: Invalid value"),
    (
        "{securityContext: {sysctls: [{name: a.b, value: a}, {name: a.b, value: a}]}}",
        'PATH.securityContext.sysctls[1].name: Duplicate value: "a.b"',
    ),
    ("{hostUsers: false, hostPID: true}", "PATH.HostPID: Forbidden: when `hostUsers` is false"),
    ("{dnsPolicy: Mine}", 'PATH.dnsPolicy: Unsupported value: "Mine"'),
    ("{dnsPolicy: None}", "PATH.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    ("{activeDeadlineSeconds: 0}", "PATH.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647"),
    ("{hostname: a.b}", 'PATH.hostname: Invalid value: "a.b": must not contain dots'),
    ("{hostname: a..b}", f'PATH.hostname: Invalid value: "a..b": {LABEL}'),
    ("{subdomain: ../x}", "PATH.subdomain: Invalid value"),
    ("{nodeName: ../x}", f'PATH.nodeName: Invalid value: "../x": {SUBDOMAIN}'),
    ("{serviceAccountName: ../x}", "PATH.serviceAccountName: Invalid value"),
    ("{hostAliases: [{ip: nowhere}]}", "PATH.hostAliases[0].ip: Invalid value"),
    ("{hostAliases: [{ip: 10.0..1}]}", 'PATH.hostAliases[0].ip: Invalid value: "10.0..1": must be a valid IP address'),
    ("{hostAliases: [{ip: 'fe80::1%eth0'}]}", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    (
        "{hostAliases: [{ip: 010.0.0.1}]}",
        'PATH.hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s',
    ),
    ("{hostAliases: [{ip: '::ffff:10.0.00.1'}]}", 'Invalid value: "::ffff:10.0.00.1": must not have leading 0s'),
    ("{hostAliases: [{ip: '::ffff:10.0.0.1'}]}", "must not be an IPv4-mapped IPv6 address"),
    (
        "{dnsConfig: {nameservers: [10.0.0.01]}}",
        'PATH.dnsConfig.nameservers[0]: Invalid value: "10.0.0.01": must not have leading 0s',
    ),
    ("{hostAliases: [{ip: 10.0.0.1, hostnames: [a/b]}]}", "PATH.hostAliases[0].hostnames[0]: Invalid value"),
    ("{os: {name: beos}}", 'PATH.os: Unsupported value: "beos"'),
    ("{resourceClaims: [{name: a}]}", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
    ("{securityContext: {runAsUser: -1}}", "runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    (
        "{container: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x}}}}",
        "seccompProfile.localhostProfile: Invalid value: \"../x\": must not contain '..'",
    ),
    (
        "{securityContext: {seccompProfile: {type: Localhost}}}",
        "PATH.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is",
    ),
    (
        "{securityContext: {appArmorProfile: {type: Localhost, localhostProfile: ' a'}}}",
        'appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace',
    ),
    (
        "{container: {securityContext: {appArmorProfile: {type: Localhost, localhostProfile: ''}}}}",
        "appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost",
    ),
    (
        f"{{securityContext: {{appArmorProfile: {{type: Localhost, localhostProfile: {'a' * 4096}}}}}}}",
        "appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes",
    ),
    (
        "{securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: a}}}",
        'appArmorProfile.localhostProfile: Invalid value: "a": can only be set when AppArmor type is Localhost',
    ),
    (
        "{os: {name: windows}, resources: {requests: {cpu: '1'}}}",
        "PATH.resources: Forbidden: may not be set for a windows pod",
    ),
    (
        "{container: {securityContext: {allowPrivilegeEscalation: false, privileged: true}}}",
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    ),
]

ACCEPTED = [
    "{}",
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
    "{securityContext: {seccompProfile: {type: Localhost, localhostProfile: ''}}}",
    f"{{securityContext: {{appArmorProfile: {{type: Localhost, localhostProfile: {'a' * 4095}}}}}}}",
    (
        "{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, "
        "labelSelector: {matchLabels: {x: y}}, matchLabelKeys: [x], mismatchLabelKeys: [z]}]}}}"
    ),
    "{dnsConfig: {nameservers: ['2001:DB8:0:0::01', 10.0.0.100]}}",
]
"""Specs that Kubernetes accepts in pods and in templates."""
