"""Validation of a pod's volumes, and of the mounts and devices of its containers.

Paths and errors are those of Kubernetes' API server.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import downward_api, signers
from pykueue.api.scheme import Object

Check = Callable[[str, Object], Iterator[FieldError]]

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_TOKEN_SECONDS = (600, 2**32)
_CERTIFICATE_SECONDS = (3600, 91 * 24 * 3600)
_KUBERNETES_CERTIFICATE_SECONDS = 24 * 3600


def check_volumes(path: str, volumes: list[Object], pod_name: str) -> tuple[dict[str, Object], list[FieldError]]:
    """The valid volumes by name, and the errors of all others."""
    valid: dict[str, Object] = {}
    field_errors: list[FieldError] = []
    claims = {f"{pod_name}-{volume.get('name')}" for volume in volumes if "ephemeral" in volume and pod_name}
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", reading.text(volume.get("name"))
        volume_errors = [*_check_source(here, volume, pod_name), *_check_name(f"{here}.name", name)]
        if name in valid:
            volume_errors.append(faults.duplicate(f"{here}.name", name))
        if not volume_errors:
            valid[name] = volume
        field_errors += volume_errors
        claim = reading.text(reading.at(volume, "persistentVolumeClaim", "claimName"))
        if claim in claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            field_errors.append(faults.invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail))
    return valid, field_errors


def with_claim_templates(spec: Object, pod_name: str) -> list[Object]:
    """The volumes of a StatefulSet's pod: a claim template replaces the volume of its name."""
    names = [
        reading.text(reading.at(template, "metadata", "name"))
        for template in reading.mappings(spec.get("volumeClaimTemplates"))
    ]
    others = reading.mappings(reading.at(spec, "template", "spec", "volumes"))
    claims = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod_name}"}} for name in names]
    return [*claims, *(volume for volume in others if volume.get("name") not in names)]


def _check_name(path: str, name: str) -> list[FieldError]:
    return syntax.check_dns_label(path, name) if name else [faults.required(path)]


def check_config_key(path: str, key: str) -> list[FieldError]:
    return [faults.invalid(path, key, explanation) for explanation in syntax.config_map_key(key)]


def _check_source(path: str, volume: Object, pod_name: str) -> Iterator[FieldError]:
    is_first = True
    for name, check in _SOURCES.items():
        source = volume.get(name)
        if source is None:
            continue
        if not is_first:
            yield faults.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
            continue
        is_first = False
        yield from check(f"{path}.{name}", reading.mapping(source))
    volume_name = reading.text(volume.get("name"))
    if "ephemeral" in volume and pod_name and volume_name:
        claim = f"{pod_name}-{volume_name}"
        for explanation in syntax.dns_subdomain(claim):
            yield faults.invalid(f"{path}.name", volume_name, f'PVC name "{claim}": {explanation}')
    if is_first:
        yield faults.required(path, "must specify a volume type")


# Paths


def check_descending_path(path: str, value: str) -> Iterator[FieldError]:
    if value.startswith("/"):
        yield faults.invalid(path, value, "must be a relative path")
    yield from _check_no_backsteps(path, value)


def _check_no_backsteps(path: str, value: str) -> Iterator[FieldError]:
    if ".." in value.split("/"):
        yield faults.invalid(path, value, "must not contain '..'")


def _check_file_path(path: str, value: str) -> Iterator[FieldError]:
    """The path of a file in a volume: relative, without `..`, and not starting with `..`."""
    yield from check_descending_path(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield faults.invalid(path, value, "must not start with '..'")


def _check_mode(path: str, source: Object, name: str) -> Iterator[FieldError]:
    mode = reading.integer(source.get(name))
    if not 0 <= mode <= 0o777:
        yield faults.invalid(f"{path}.{name}", mode, _MODE)


# Sources


def _requires(*names: str) -> Check:
    def check(path: str, source: Object) -> Iterator[FieldError]:
        for name in names:
            if not source.get(name):
                yield faults.required(f"{path}.{name}")

    return check


def _check_empty_dir(path: str, source: Object) -> Iterator[FieldError]:
    size = reading.amount(source.get("sizeLimit"))
    if size is not None and size.nano < 0:
        yield faults.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_host_path(path: str, source: Object) -> Iterator[FieldError]:
    value = reading.text(source.get("path"))
    if not value:
        yield faults.required(f"{path}.path")
        return
    yield from _check_no_backsteps(f"{path}.path", value)
    if (kind := source.get("type") or "") not in _HOST_PATH_TYPES:
        yield faults.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _check_git_repo(path: str, source: Object) -> Iterator[FieldError]:
    yield from _requires("repository")(path, source)
    yield from check_descending_path(f"{path}.directory", reading.text(source.get("directory")))


def _check_nfs(path: str, source: Object) -> Iterator[FieldError]:
    yield from _requires("server", "path")(path, source)
    if not reading.text(source.get("path")).startswith("/"):
        yield faults.invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


def _check_csi(path: str, source: Object) -> Iterator[FieldError]:
    driver = reading.text(source.get("driver"))
    if not driver:
        yield faults.required(f"{path}.driver")
    if len(driver) > 63:
        yield faults.too_long(f"{path}.driver", 63)
    for explanation in syntax.dns_subdomain(driver.lower()) if driver else ():
        yield faults.invalid(f"{path}.driver", driver, explanation)
    reference = source.get("nodePublishSecretRef")
    if isinstance(reference, dict) and not reference.get("name"):
        yield faults.required(f"{path}.nodePublishSecretRef.name")


def _check_image(path: str, source: Object) -> Iterator[FieldError]:
    yield from _requires("reference")(path, source)
    if (policy := source.get("pullPolicy")) and policy not in _PULL_POLICIES:
        yield faults.not_supported(f"{path}.pullPolicy", policy, _PULL_POLICIES)


def _keys_to_paths(name_field: str) -> Check:
    """A ConfigMap or Secret, with the keys that become files."""

    def check(path: str, source: Object) -> Iterator[FieldError]:
        yield from _requires(name_field)(path, source)
        yield from _check_mode(path, source, "defaultMode")
        yield from _check_items(path, source)

    return check


def _check_items(path: str, source: Object) -> Iterator[FieldError]:
    for index, item in enumerate(reading.mappings(source.get("items"))):
        here = f"{path}.items[{index}]"
        yield from _requires("key", "path")(here, item)
        yield from _check_file_path(f"{here}.path", reading.text(item.get("path")))
        yield from _check_mode(here, item, "mode")


def _check_downward_api(path: str, source: Object) -> Iterator[FieldError]:
    yield from _check_mode(path, source, "defaultMode")
    for item in reading.mappings(source.get("items")):
        yield from _check_downward_api_file(path, item)


def _check_downward_api_file(path: str, item: Object) -> Iterator[FieldError]:
    yield from _requires("path")(path, item)
    yield from _check_file_path(f"{path}.path", reading.text(item.get("path")))
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from downward_api.check_volume_field(f"{path}.fieldRef", reading.mapping(field))
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield faults.invalid(path, "resource", detail)
    elif resource is not None:
        here = f"{path}.resourceFieldRef"
        yield from downward_api.check_resource(here, reading.mapping(resource), needs_container=True)
    else:
        yield faults.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _check_mode(path, item, "mode")


def _check_projected(path: str, source: Object) -> Iterator[FieldError]:
    yield from _check_mode(path, source, "defaultMode")
    files: set[str] = set()
    for index, projection in enumerate(reading.mappings(source.get("sources"))):
        here = f"{path}.sources[{index}]"
        names = [name for name in _PROJECTIONS if projection.get(name) is not None]
        for name in names:
            yield from _PROJECTIONS[name](f"{here}.{name}", reading.mapping(projection[name]))
        for value, file_path in _projected_files(projection):
            if file_path in files:
                yield faults.invalid(path, value, "conflicting duplicate paths")
            files.add(file_path)
        if len(names) > 1:
            yield faults.forbidden(here, "may not specify more than 1 volume type per source")


def _projected_files(projection: Object) -> Iterator[tuple[str, str]]:
    """The paths of the files of a projection, each with the value that an error names."""
    for name in ("secret", "configMap", "downwardAPI"):
        source = reading.mapping(projection.get(name))
        for item in reading.mappings(source.get("items")):
            if file_path := reading.text(item.get("path")):
                yield reading.text(source.get("name")) or file_path, file_path
    for name, fields in (
        ("clusterTrustBundle", ("path",)),
        ("podCertificate", ("credentialBundlePath", "keyPath", "certificateChainPath")),
    ):
        for field in fields:
            if file_path := reading.text(reading.at(projection, name, field)):
                yield file_path, file_path


def _check_projected_keys(path: str, source: Object) -> Iterator[FieldError]:
    yield from _requires("name")(path, source)
    yield from _check_items(path, source)


def _check_projected_downward_api(path: str, source: Object) -> Iterator[FieldError]:
    for item in reading.mappings(source.get("items")):
        yield from _check_downward_api_file(path, item)


def _check_token(path: str, source: Object) -> Iterator[FieldError]:
    seconds = source.get("expirationSeconds")
    if seconds is None:
        yield faults.required(f"{path}.expirationSeconds")
    elif reading.integer(seconds) < _TOKEN_SECONDS[0]:
        yield faults.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif reading.integer(seconds) > _TOKEN_SECONDS[1]:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield faults.invalid(f"{path}.expirationSeconds", seconds, detail)
    volume = path.rpartition(".sources[")[0]
    if not (file_path := reading.text(source.get("path"))):
        yield faults.required(f"{volume}.path")
    yield from _check_file_path(f"{volume}.path", file_path)


def _check_trust_bundle(path: str, source: Object) -> Iterator[FieldError]:
    names = [name for name in ("name", "signerName") if source.get(name) is not None]
    if len(names) > 1:
        yield faults.invalid(path, source, "only one of name and signerName may be used")
    elif names == ["name"]:
        yield from _check_named_bundle(path, source)
    elif names == ["signerName"]:
        yield from _check_signer_of_bundles(path, source)
    else:
        yield faults.required(path, "either name or signerName must be specified")
    yield from _requires("path")(path, source)
    yield from _check_file_path(f"{path}.path", reading.text(source.get("path")))


def _check_named_bundle(path: str, source: Object) -> Iterator[FieldError]:
    if not (name := reading.text(source.get("name"))):
        yield faults.required(f"{path}.name", "must be a valid object name")
    yield from signers.check_trust_bundle_name(f"{path}.name", name)
    if (selector := source.get("labelSelector")) is not None:
        yield faults.invalid(f"{path}.labelSelector", selector, "labelSelector must be unset if name is specified")


def _check_signer_of_bundles(path: str, source: Object) -> Iterator[FieldError]:
    if not (signer_name := reading.text(source.get("signerName"))):
        yield faults.required(f"{path}.signerName", "must be a valid signer name")
    yield from signers.check_name(f"{path}.signerName", signer_name)
    yield from syntax.check_label_selector(f"{path}.labelSelector", source.get("labelSelector"))


def _check_certificate(path: str, source: Object) -> Iterator[FieldError]:
    signer_name = reading.text(source.get("signerName"))
    yield from signers.check_name(f"{path}.signerName", signer_name)
    yield from syntax.check_user_annotations(f"{path}.userAnnotations", reading.text_map(source.get("userAnnotations")))
    if (key_type := source.get("keyType", "")) not in _KEY_TYPES:
        yield faults.not_supported(f"{path}.keyType", key_type, _KEY_TYPES)
    least, most = _CERTIFICATE_SECONDS
    if signers.is_of_kubernetes(signer_name):
        most = _KUBERNETES_CERTIFICATE_SECONDS
    seconds = reading.integer(source.get("maxExpirationSeconds"), least)
    if not least <= seconds <= most:
        bound = f">= {least}" if seconds < least else f"<= {most}"
        detail = f"if provided, maxExpirationSeconds must be {bound}"
        yield faults.invalid(f"{path}.maxExpirationSeconds", seconds, detail)
    names = [name for name in ("credentialBundlePath", "keyPath", "certificateChainPath") if source.get(name)]
    for name in names:
        yield from _check_file_path(f"{path}.{name}", reading.text(source[name]))
    if not names:
        yield faults.required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")


_PROJECTIONS: Mapping[str, Check] = {
    "secret": _check_projected_keys,
    "configMap": _check_projected_keys,
    "downwardAPI": _check_projected_downward_api,
    "serviceAccountToken": _check_token,
    "clusterTrustBundle": _check_trust_bundle,
    "podCertificate": _check_certificate,
}

_SOURCES: Mapping[str, Check] = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "gitRepo": _check_git_repo,
    "gcePersistentDisk": _requires("pdName"),
    "awsElasticBlockStore": _requires("volumeID"),
    "secret": _keys_to_paths("secretName"),
    "nfs": _check_nfs,
    "iscsi": _requires("targetPortal", "iqn"),
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _requires(),
    "persistentVolumeClaim": _requires("claimName"),
    "rbd": _requires("monitors", "image"),
    "cinder": _requires("volumeID"),
    "cephfs": _requires("monitors"),
    "quobyte": _requires("registry", "volume"),
    "downwardAPI": _check_downward_api,
    "fc": _requires(),
    "flexVolume": _requires("driver"),
    "configMap": _keys_to_paths("name"),
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _requires("diskName", "diskURI"),
    "storageos": _requires("volumeName"),
    "projected": _check_projected,
    "scaleIO": _requires("gateway", "system", "volumeName"),
    "csi": _check_csi,
    "ephemeral": _requires("volumeClaimTemplate"),
    "image": _check_image,
}
"""The sources in the order in which Kubernetes checks them: the first one of a volume counts."""


# Mounts and devices


def check_mounts(path: str, container: Object, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    if not container.get("volumeMounts"):
        return
    devices = reading.mappings(container.get("volumeDevices"))
    device_names = {reading.text(device.get("name")) for device in devices}
    device_paths = {reading.text(device.get("devicePath")) for device in devices}
    mount_paths: set[str] = set()
    for index, mount in enumerate(reading.mappings(container.get("volumeMounts"))):
        here = f"{path}[{index}]"
        name, mount_path = reading.text(mount.get("name")), reading.text(mount.get("mountPath"))
        if not name:
            yield faults.required(f"{here}.name")
        if name not in volumes:
            yield faults.not_found(f"{here}.name", name)
        if not mount_path:
            yield faults.required(f"{here}.mountPath")
        if mount_path in mount_paths:
            yield faults.invalid(f"{here}.mountPath", mount_path, "must be unique")
        mount_paths.add(mount_path)
        if name in device_names:
            yield faults.invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if mount_path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            yield faults.invalid(f"{here}.mountPath", mount_path, detail)
        yield from _check_sub_path(path, here, mount)
        yield from _check_propagation(path, mount, container)


def _check_sub_path(path: str, here: str, mount: Object) -> Iterator[FieldError]:
    sub_path, expression = (reading.text(mount.get(name)) for name in ("subPath", "subPathExpr"))
    yield from check_descending_path(f"{path}.subPath", sub_path)
    if sub_path and expression:
        detail = "subPathExpr and subPath are mutually exclusive"
        yield faults.invalid(f"{here}.subPathExpr", expression, detail)
    yield from check_descending_path(f"{path}.subPathExpr", expression)


def _check_propagation(path: str, mount: Object, container: Object) -> Iterator[FieldError]:
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in _PROPAGATIONS:
        yield faults.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and reading.at(container, "securityContext", "privileged") is not True:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield faults.forbidden(f"{path}.mountPropagation", detail)
    recursive: Any = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if mount.get("readOnly") is not True:
            yield faults.forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            yield faults.forbidden(f"{path}.recursiveReadOnly", detail)
    elif recursive is not None and recursive != "Disabled":
        yield faults.not_supported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE_READ_ONLY)


def check_devices(path: str, container: Object, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    if not container.get("volumeDevices"):
        return
    mounts = reading.mappings(container.get("volumeMounts"))
    mount_names = {reading.text(mount.get("name")) for mount in mounts}
    mount_paths = {reading.text(mount.get("mountPath")) for mount in mounts}
    names: set[str] = set()
    device_paths: set[str] = set()
    for index, device in enumerate(reading.mappings(container.get("volumeDevices"))):
        here = f"{path}[{index}]"
        name, device_path = reading.text(device.get("name")), reading.text(device.get("devicePath"))
        if not name:
            yield faults.required(f"{here}.name")
        if name in names:
            yield faults.invalid(f"{here}.name", name, "must be unique")
        if name not in volumes:
            yield faults.not_found(f"{here}.name", name)
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield faults.invalid(f"{here}.name", name, detail)
        if not device_path:
            yield faults.required(f"{here}.devicePath")
        if device_path in device_paths:
            yield faults.invalid(f"{here}.devicePath", device_path, "must be unique")
        if ".." in device_path.split("/"):
            yield faults.invalid(f"{here}.devicePath", device_path, "can not contain backsteps ('..')")
        if name in mount_names:
            yield faults.invalid(f"{here}.name", name, "must not already exist in volumeMounts")
        if device_path in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield faults.invalid(f"{here}.devicePath", device_path, detail)
        names.add(name)
        device_paths.add(device_path)
