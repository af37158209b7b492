"""Kubernetes' defaults and validation of webhook configurations."""

import base64
import binascii
import ssl
import urllib.parse
from collections.abc import Sequence

from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import admission_matching as matching
from pykueue.api.rules.builtin.admission_matching import Faults
from pykueue.api.scheme import AdmissionRequest, Object

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_LONGEST_TIMEOUT_SECONDS = 30


def default_webhooks(request: AdmissionRequest) -> None:
    for webhook in reading.mappings(request.object.get("webhooks")):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("timeoutSeconds", 10)
        if request.object.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        matching.default_selectors(webhook)
        matching.default_rules(webhook.get("rules"))
        service = reading.at(webhook, "clientConfig", "service")
        if isinstance(service, dict):
            service.setdefault("port", 443)


def _webhook_configuration_faults(configuration: Object, _old: Object | None) -> Faults:
    is_mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
    names: set[str] = set()
    for index, webhook in enumerate(reading.mappings(configuration.get("webhooks"))):
        path, name = f"webhooks[{index}]", reading.text(webhook.get("name"))
        yield from _qualified_name_faults(name, f"{path}.name")
        if name in names:
            yield faults.duplicate(f"{path}.name", name)
        names.add(name)
        yield from _webhook_faults(webhook, path)
        if is_mutating:
            yield from matching.choice_faults(webhook, path, "reinvocationPolicy", ("IfNeeded", "Never"))


def _qualified_name_faults(name: str, path: str) -> Faults:
    if not name:
        yield faults.required(path)
        return
    yield from syntax.check_dns_subdomain(path, name)
    if len(name.split(".")) < 3:
        yield faults.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _webhook_faults(webhook: Object, path: str) -> Faults:
    for index, rule in enumerate(reading.mappings(webhook.get("rules"))):
        yield from matching.rule_faults(rule, f"{path}.rules[{index}]")
    yield from matching.choice_faults(webhook, path, "failurePolicy", ("Fail", "Ignore"))
    yield from matching.choice_faults(webhook, path, "matchPolicy", ("Equivalent", "Exact"))
    if webhook.get("sideEffects") is None:
        yield faults.required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif webhook["sideEffects"] not in _SIDE_EFFECTS:
        yield faults.not_supported(f"{path}.sideEffects", webhook["sideEffects"], _SIDE_EFFECTS)
    timeout = webhook.get("timeoutSeconds")
    if isinstance(timeout, int) and not 1 <= timeout <= _LONGEST_TIMEOUT_SECONDS:
        detail = f"the timeout value must be between 1 and {_LONGEST_TIMEOUT_SECONDS} seconds"
        yield faults.invalid(f"{path}.timeoutSeconds", timeout, detail)
    for name in ("namespaceSelector", "objectSelector"):
        yield from syntax.check_label_selector(f"{path}.{name}", webhook.get(name) or {})
    yield from _review_version_faults(reading.texts(webhook.get("admissionReviewVersions")), path)
    yield from _client_faults(reading.mapping(webhook.get("clientConfig")), f"{path}.clientConfig")
    yield from matching.condition_faults(webhook.get("matchConditions"), f"{path}.matchConditions", has_params=False)


def _review_version_faults(versions: Sequence[str], path: str) -> Faults:
    path, accepted = f"{path}.admissionReviewVersions", ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield faults.required(path, f"must specify one of {accepted}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield faults.invalid(f"{path}[{index}]", version, "duplicate version")
        for detail in syntax.dns_1035_label(version):
            yield faults.invalid(f"{path}[{index}]", version, detail)
    if not set(versions).intersection(_REVIEW_VERSIONS):
        yield faults.invalid(path, list(versions), f"must include at least one of {accepted}")


def _client_faults(client: Object, path: str) -> Faults:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield faults.required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_faults(reading.text(url), f"{path}.url")
    else:
        yield from _service_faults(reading.mapping(service), f"{path}.service")
    bundle = reading.text(client.get("caBundle"))
    if bundle:
        try:
            ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
        except (ssl.SSLError, ValueError, binascii.Error):
            detail = "unable to load root certificates: unable to parse bytes as PEM block"
            yield faults.invalid(f"{path}.caBundle", bundle[:40], detail)


def _url_faults(url: str, path: str) -> Faults:
    form = "; desired format: https://host[/path]"
    try:
        parts = urllib.parse.urlsplit(url)
        host, user = parts.hostname, parts.username
    except ValueError as error:
        yield faults.required(path, f"url must be a valid URL: {error}{form}")
        return
    if parts.scheme != "https":
        yield faults.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not host:
        yield faults.invalid(path, "", f"host must be specified{form}")
    if user is not None:
        yield faults.invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield faults.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield faults.invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_faults(service: Object, path: str) -> Faults:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield faults.required(f"{path}.{name}")
    port = service.get("port", 443)
    if not isinstance(port, int) or not 1 <= port <= 65535:
        yield faults.invalid(f"{path}.port", port, f"port is not valid: {syntax.outside(1, 65535)}")
    url_path = reading.text(service.get("path"))
    if url_path in ("", "/"):
        return
    if not url_path.startswith("/"):
        yield faults.invalid(f"{path}.path", url_path, "must start with a '/'")
    for index, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        details = [": " + detail for detail in syntax.dns_subdomain(step)] if step else [" may not be empty"]
        for detail in details:
            yield faults.invalid(f"{path}.path", url_path, f"segment[{index}]{detail}")


validate_webhooks = matching.validator(_webhook_configuration_faults)
