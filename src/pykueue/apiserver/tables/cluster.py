"""The columns of the other builtin kinds: nodes, namespaces, events, services, roles and more."""

from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.apiserver.tables import ages, printer
from pykueue.apiserver.tables.printer import count, joined, text, value

_ROLE_LABEL = "node-role.kubernetes.io/"


def _node(node: Object, now: float) -> list[Any]:
    return [
        objects.name(node),
        _node_status(node),
        joined(_node_roles(node)),
        printer.age(node, now),
        text(node, "status", "nodeInfo", "kubeletVersion"),
        _node_address(node, "InternalIP"),
        _node_address(node, "ExternalIP"),
        text(node, "status", "nodeInfo", "osImage", absent=printer.UNKNOWN),
        text(node, "status", "nodeInfo", "kernelVersion", absent=printer.UNKNOWN),
        text(node, "status", "nodeInfo", "containerRuntimeVersion", absent=printer.UNKNOWN),
    ]


def _node_status(node: Object) -> str:
    ready = (conditions.find(node, "Ready") or {}).get("status")
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{word},SchedulingDisabled" if value(node, "spec", "unschedulable") else word


def _node_roles(node: Object) -> list[str]:
    roles = set()
    for label, role in objects.labels(node).items():
        if label.startswith(_ROLE_LABEL) and len(label) > len(_ROLE_LABEL):
            roles.add(label.removeprefix(_ROLE_LABEL))
        elif label == "kubernetes.io/role" and role:
            roles.add(role)
    return sorted(roles)


def _node_address(node: Object, kind: str) -> str:
    addresses = objects.nested_list(node, "status", "addresses")
    return next((text(address, "address") for address in addresses if address.get("type") == kind), printer.NONE)


def _namespace(namespace: Object, now: float) -> list[Any]:
    return [objects.name(namespace), text(namespace, "status", "phase"), printer.age(namespace, now)]


def _event(event: Object, now: float) -> list[Any]:
    """An event of v1 or events.k8s.io/v1."""
    is_core = event["apiVersion"] == "v1"
    regarding = objects.nested(event, "involvedObject" if is_core else "regarding")
    first = text(event, "firstTimestamp" if is_core else "deprecatedFirstTimestamp") or text(event, "eventTime")
    series_end = text(event, "series", "lastObservedTime")
    last = series_end or text(event, "lastTimestamp" if is_core else "deprecatedLastTimestamp") or first
    times = count(event, "series", "count") or count(event, "count" if is_core else "deprecatedCount") or 1
    kind = text(regarding, "kind").lower()
    source = objects.nested(event, "source" if is_core else "deprecatedSource")
    return [
        ages.age(last, now),
        text(event, "type"),
        text(event, "reason"),
        f"{kind}/{text(regarding, 'name')}" if regarding.get("name") else kind,
        text(regarding, "fieldPath"),
        _event_source(event, source),
        text(event, "message" if is_core else "note").strip(),
        ages.age(first, now),
        times,
        objects.name(event),
    ]


def _event_source(event: Object, source: dict[str, Any]) -> str:
    component = text(source, "component") or text(event, "reportingController") or text(event, "reportingComponent")
    host = text(source, "host") or text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def _service(service: Object, now: float) -> list[Any]:
    kind = text(service, "spec", "type", absent="ClusterIP")
    ports = (
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in objects.nested_list(service, "spec", "ports")
    )
    return [
        objects.name(service),
        kind,
        text(service, "spec", "clusterIP", absent=printer.NONE),
        _external_address(service, kind),
        joined(ports),
        printer.age(service, now),
        printer.labels(objects.nested(service, "spec", "selector")),
    ]


def _external_address(service: Object, kind: str) -> str:
    if kind == "ExternalName":
        return text(service, "spec", "externalName")
    ingress = objects.nested_list(service, "status", "loadBalancer", "ingress") if kind == "LoadBalancer" else []
    addresses = [text(entry, "ip") or text(entry, "hostname") for entry in ingress]
    addresses += objects.nested_list(service, "spec", "externalIPs")
    return joined(addresses, absent="<pending>" if kind == "LoadBalancer" else printer.NONE)


def _endpoints(endpoints: Object, now: float) -> list[Any]:
    addresses = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in objects.nested_list(endpoints, "subsets")
        for port in objects.nested_list(subset, "ports")
        for address in objects.nested_list(subset, "addresses")
    ]
    more = f" + {len(addresses) - 3} more..." if len(addresses) > 3 else ""
    return [objects.name(endpoints), joined(addresses[:3]) + more, printer.age(endpoints, now)]


def _secret(secret: Object, now: float) -> list[Any]:
    return [
        objects.name(secret),
        text(secret, "type", absent="Opaque"),
        len(objects.nested(secret, "data")),
        printer.age(secret, now),
    ]


def _config_map(config_map: Object, now: float) -> list[Any]:
    size = len(objects.nested(config_map, "data")) + len(objects.nested(config_map, "binaryData"))
    return [objects.name(config_map), size, printer.age(config_map, now)]


def _service_account(account: Object, now: float) -> list[Any]:
    return [objects.name(account), len(objects.nested_list(account, "secrets")), printer.age(account, now)]


def _lease(lease: Object, now: float) -> list[Any]:
    return [objects.name(lease), text(lease, "spec", "holderIdentity"), printer.age(lease, now)]


def _priority_class(priority_class: Object, now: float) -> list[Any]:
    return [
        objects.name(priority_class),
        count(priority_class, "value"),
        bool(priority_class.get("globalDefault")),
        printer.age(priority_class, now),
        text(priority_class, "preemptionPolicy"),
    ]


def _runtime_class(runtime_class: Object, now: float) -> list[Any]:
    return [objects.name(runtime_class), text(runtime_class, "handler"), printer.age(runtime_class, now)]


def _created(obj: Object, _now: float) -> list[Any]:
    return [objects.name(obj), printer.created_at(obj)]


def _role_binding(binding: Object, now: float) -> list[Any]:
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in objects.nested_list(binding, "subjects"):
        prefix = f"{subject['namespace']}/" if subject.get("namespace") else ""
        by_kind.setdefault(text(subject, "kind"), []).append(prefix + text(subject, "name"))
    role = f"{text(binding, 'roleRef', 'kind')}/{text(binding, 'roleRef', 'name')}"
    subjects = (", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return [objects.name(binding), role, printer.age(binding, now), *subjects]


def _resource_quota(quota: Object, now: float) -> list[Any]:
    hard, used = objects.nested(quota, "status", "hard"), objects.nested(quota, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        usage = f"{resource}: {used.get(resource, '0')}/{hard[resource]}"
        (limits if resource.startswith("limits.") else requests).append(usage)
    return [objects.name(quota), ", ".join(requests), ", ".join(limits), printer.age(quota, now)]


def _disruption_budget(budget: Object, now: float) -> list[Any]:
    spec = objects.spec(budget)
    limits = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [
        objects.name(budget),
        *limits,
        printer.count(budget, "status", "disruptionsAllowed"),
        printer.age(budget, now),
    ]


def _storage_class(storage_class: Object, now: float) -> list[Any]:
    return [
        objects.name(storage_class),
        printer.text(storage_class, "provisioner"),
        printer.text(storage_class, "reclaimPolicy"),
        printer.text(storage_class, "volumeBindingMode"),
        bool(storage_class.get("allowVolumeExpansion")),
        printer.age(storage_class, now),
    ]


def _volume_claim(claim: Object, now: float) -> list[Any]:
    modes = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    bound = bool(value(claim, "spec", "volumeName"))
    phase = "Terminating" if objects.is_deleted(claim) else text(claim, "status", "phase")
    granted = objects.nested_list(claim, "status", "accessModes")
    return [
        objects.name(claim),
        phase,
        text(claim, "spec", "volumeName"),
        text(claim, "status", "capacity", "storage") if bound else "",
        ",".join(modes.get(mode, mode) for mode in granted) if bound else "",
        text(claim, "spec", "storageClassName"),
        text(claim, "spec", "volumeAttributesClassName", absent="<unset>"),
        printer.age(claim, now),
        text(claim, "spec", "volumeMode", absent="<unset>"),
    ]


def _pod_template(template: Object, _now: float) -> list[Any]:
    pod = objects.nested(template, "template")
    return [
        objects.name(template),
        *printer.containers(pod),
        printer.labels(objects.nested(pod, "metadata", "labels")),
    ]


_EVENT = printer.Printer(
    printer.headers(
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "~Subobject",
        "~Source",
        "Message",
        "~First Seen",
        "~Count:integer",
        "~Name",
    ),
    _event,
)
_CREATED = printer.Printer(printer.headers("Name", "Created At"), _created)
_BINDING = printer.Printer(
    printer.headers("Name", "Role", "Age", "~Users", "~Groups", "~ServiceAccounts"), _role_binding
)
_NODE_HEADERS = printer.headers(
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "~Internal-IP",
    "~External-IP",
    "~OS-Image",
    "~Kernel-Version",
    "~Container-Runtime",
)
_SERVICE_HEADERS = printer.headers("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "~Selector")
_CLAIM_HEADERS = printer.headers(
    "Name",
    "Status",
    "Volume",
    "Capacity",
    "Access Modes",
    "StorageClass",
    "VolumeAttributesClass",
    "Age",
    "~VolumeMode",
)

PRINTERS = {
    ("", "Node"): printer.Printer(_NODE_HEADERS, _node),
    ("", "Namespace"): printer.Printer(printer.headers("Name", "Status", "Age"), _namespace),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "Service"): printer.Printer(_SERVICE_HEADERS, _service),
    ("", "Endpoints"): printer.Printer(printer.headers("Name", "Endpoints", "Age"), _endpoints),
    ("", "Secret"): printer.Printer(printer.headers("Name", "Type", "Data", "Age"), _secret),
    ("", "ConfigMap"): printer.Printer(printer.headers("Name", "Data", "Age"), _config_map),
    ("", "ServiceAccount"): printer.Printer(printer.headers("Name", "Secrets", "Age"), _service_account),
    ("", "LimitRange"): _CREATED,
    ("", "ResourceQuota"): printer.Printer(printer.headers("Name", "Request", "Limit", "Age"), _resource_quota),
    ("", "PersistentVolumeClaim"): printer.Printer(_CLAIM_HEADERS, _volume_claim),
    ("", "PodTemplate"): printer.Printer(printer.headers("Name", "Containers", "Images", "Pod Labels"), _pod_template),
    ("coordination.k8s.io", "Lease"): printer.Printer(printer.headers("Name", "Holder", "Age"), _lease),
    ("policy", "PodDisruptionBudget"): printer.Printer(
        printer.headers("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"),
        _disruption_budget,
    ),
    ("storage.k8s.io", "StorageClass"): printer.Printer(
        printer.headers(
            "Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion:boolean", "Age"
        ),
        _storage_class,
    ),
    ("scheduling.k8s.io", "PriorityClass"): printer.Printer(
        printer.headers("Name", "Value:integer", "Global-Default:boolean", "Age", "PreemptionPolicy"), _priority_class
    ),
    ("node.k8s.io", "RuntimeClass"): printer.Printer(printer.headers("Name", "Handler", "Age"), _runtime_class),
    ("rbac.authorization.k8s.io", "Role"): _CREATED,
    ("rbac.authorization.k8s.io", "ClusterRole"): _CREATED,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CREATED,
}
