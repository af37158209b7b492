"""Volumes, mounts and devices of pods: cases in the form of `pod_cases`."""

from tests.api.rules.pod_cases import LABEL, MODE, SUBDOMAIN


def certificate(fields):
    """A pod with a projected certificate that has these fields of its own."""
    source = f"{{{fields}, keyType: ED25519, keyPath: x}}"
    return f"{{volumes: [{{name: a, projected: {{sources: [{{podCertificate: {source}}}]}}}}]}}"


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
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: '', path: x}}]}}]}",
        "sources[0].clusterTrustBundle.name: Required value: must be a valid object name",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: 'a.io:s:B', path: x}}]}}]}",
        f'clusterTrustBundle.name: Invalid value: "a.io:s:B": not a valid clustertrustbundlename: {SUBDOMAIN}',
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: ':b', path: x}}]}}]}",
        'not a valid clustertrustbundlename: ClusterTrustBundle without signer name must not have ":" in its name',
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: 'a.io/s:b', path: x}}]}}]}",
        "ClusterTrustBundle for signerName a.io/s must be named with prefix a.io:s:",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: b, labelSelector: {}, path: x}}]}}]}",
        "clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {signerName: '', path: x}}]}}]}",
        "sources[0].clusterTrustBundle.signerName: Required value: must be a valid signer name",
    ),
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {signerName: a.io, path: x}}]}}]}",
        "must be a fully qualified domain and path of the form 'example.com/signer-name'",
    ),
    (
        (
            "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: "
            "{signerName: a.io/s, labelSelector: {matchLabels: {'b c': d}}, path: x}}]}}]}"
        ),
        "clusterTrustBundle.labelSelector.matchLabels: Invalid value",
    ),
    (certificate("signerName: a.io/s/t"), 'podCertificate.signerName: Invalid value: "a.io/s/t": must be a fully'),
    (certificate("signerName: local/s"), 'Invalid value: "local": should be a domain with at least two segments'),
    (
        certificate("signerName: A.io/s"),
        f'podCertificate.signerName: Invalid value: "A.io": validating label "A": {LABEL}',
    ),
    (certificate("signerName: a.io/S"), f'Invalid value: "S": validating label "S": {SUBDOMAIN}'),
    (certificate(f"signerName: {'a.' * 126}io/s"), "podCertificate.signerName: Too long: may not be more than 253"),
    (
        certificate("signerName: a.io/" + "s." * 300 + "s"),
        "podCertificate.signerName: Too long: may not be more than 571",
    ),
    (
        certificate("signerName: a.io/s, userAnnotations: {b: c}"),
        'podCertificate.userAnnotations: Invalid value: "b": must be a domain-prefixed key (such as "acme.io/foo")',
    ),
    (
        certificate("signerName: a.io/s, userAnnotations: {b.io/c/d: e}"),
        'podCertificate.userAnnotations: Invalid value: "b.io/c/d": a valid label key must consist of',
    ),
    (certificate("signerName: a.io/s, userAnnotations: {'': e}"), "podCertificate.userAnnotations: Required value"),
    (
        certificate(f"signerName: a.io/s, userAnnotations: {{{'b' * 254}/c: d}}"),
        "prefix part must be no more than 253 bytes",
    ),
    (
        certificate(f"signerName: a.io/s, userAnnotations: {{b.io/c: {'d' * 262144}}}"),
        "podCertificate.userAnnotations: Too long: may not be more than 262144 bytes",
    ),
    (
        certificate("signerName: a.io/s, maxExpirationSeconds: 7862401"),
        "Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400",
    ),
    (
        certificate("signerName: x.kubernetes.io/s, maxExpirationSeconds: 86401"),
        "Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400",
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
]

ACCEPTED = [
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
    "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {name: 'a.io:s:b', path: x}}]}}]}",
    (
        "{volumes: [{name: a, projected: {sources: [{clusterTrustBundle: "
        "{signerName: a.io/s.t, labelSelector: {matchLabels: {b: c}}, path: x}}]}}]}"
    ),
    certificate("signerName: a.io/s, maxExpirationSeconds: 7862400, userAnnotations: {B.io/c: d}"),
    certificate("signerName: kubernetes.io/s, maxExpirationSeconds: 86400"),
]
