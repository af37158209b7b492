"""The names of certificate signers and ClusterTrustBundles, to which projected volumes refer."""

import json
from collections.abc import Iterator

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, syntax

_LONGEST_DOMAIN = 253
_LONGEST_NAME = 253 + 1 + 63 + 1 + 253
_FORM = "must be a fully qualified domain and path of the form 'example.com/signer-name'"


def is_of_kubernetes(signer_name: str) -> bool:
    domain = signer_name.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def check_name(path: str, signer_name: str) -> Iterator[FieldError]:
    """The name of a signer: a domain and a path, such as `example.com/signer-name`."""
    if not signer_name:
        yield faults.required(path)
        return
    domain, _, signer_path = signer_name.partition("/")
    if signer_name.count("/") != 1:
        yield faults.invalid(path, signer_name, _FORM)
        return
    if len(domain) > _LONGEST_DOMAIN:
        yield faults.too_long(path, _LONGEST_DOMAIN)
    labels = domain.split(".")
    yield from _check_labels(path, domain, ((label, syntax.dns_label(label)) for label in labels))
    if len(labels) == 1:
        yield faults.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    path_labels = signer_path.split(".")
    yield from _check_labels(path, signer_path, ((label, syntax.dns_subdomain(label)) for label in path_labels))
    if len(signer_name) > _LONGEST_NAME:
        yield faults.too_long(path, _LONGEST_NAME)


def _check_labels(
    path: str, value: str, explained_labels: Iterator[tuple[str, tuple[str, ...]]]
) -> Iterator[FieldError]:
    """The errors of the first label that has any."""
    for label, explanations in explained_labels:
        for explanation in explanations:
            yield faults.invalid(path, value, f"validating label {json.dumps(label)}: {explanation}")
        if explanations:
            return


def check_trust_bundle_name(path: str, name: str) -> Iterator[FieldError]:
    """The name of a ClusterTrustBundle, after that of its signer and a colon if it has one."""
    signer, colon, own = name.rpartition(":")
    explanations = syntax.dns_subdomain(own)
    if colon and not signer:
        explanations = ('ClusterTrustBundle without signer name must not have ":" in its name',)
    elif "/" in signer:
        signer_name, prefix = signer.replace(":", "/"), signer.replace("/", ":")
        explanations = (f"ClusterTrustBundle for signerName {signer_name} must be named with prefix {prefix}:",)
    for explanation in explanations:
        yield faults.invalid(path, name, f"not a valid clustertrustbundlename: {explanation}")
