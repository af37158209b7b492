"""What `pykueue doctor` finds out about webhooks: their configurations, their certificate, and who answers."""

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykueue.api.configuration.types import Configuration
    from pykueue.install.diagnosis import WebhookFacts
    from pykueue.kube.client import Client


async def gather(client: "Client", configuration: "Configuration") -> "WebhookFacts":
    from pykueue.install.diagnosis import WebhookFacts
    from pykueue.install.webhooks import MUTATING, QUEUED, UNQUEUED, VALIDATING

    found: list[Any] = []
    missing: list[str] = []
    for resource in (MUTATING, VALIDATING):
        for name in (QUEUED, UNQUEUED):
            configured = await _get(client, resource.path(name=name))
            if configured is None:
                missing.append(f"{resource.kind} {name}")
            else:
                found += configured.get("webhooks") or []
    certificate, days_left = await _certificate(client, configuration)
    bundles = [base64.b64decode(each["clientConfig"].get("caBundle") or "") for each in found]
    return WebhookFacts(
        missing=tuple(missing),
        is_trusted=all(_trusts(bundle, certificate) for bundle in bundles),
        days_left=days_left,
        ready_endpoints=await _ready_endpoints(client, configuration),
        is_outside=any("url" in each["clientConfig"] for each in found),
    )


async def are_there(client: "Client") -> bool:
    from pykueue.install.webhooks import MUTATING, QUEUED

    return await _get(client, MUTATING.path(name=QUEUED)) is not None


async def _get(client: "Client", path: str) -> Any:
    """None if there is no such thing."""
    from pykueue.api.errors import ApiError

    try:
        return await client.raw("GET", path)
    except ApiError as error:
        if error.code != 404:
            raise
        return None


async def _certificate(client: "Client", configuration: "Configuration") -> tuple[bytes, float | None]:
    """As the Secret has it, whoever made it, and the days that it lasts."""
    from cryptography import x509

    name = configuration.internal_cert_management.webhook_secret_name
    secret = await _get(client, f"/api/v1/namespaces/{configuration.namespace}/secrets/{name}") or {}
    certificate = base64.b64decode((secret.get("data") or {}).get("tls.crt") or "")
    if not certificate:
        return b"", None
    end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return certificate, (end - datetime.now(UTC)).total_seconds() / 86400


def _trusts(bundle: bytes, certificate: bytes) -> bool:
    from pykueue.webhooks import certificate_lifecycle

    return bool(certificate) and certificate_lifecycle.is_trusted(bundle, certificate)


async def _ready_endpoints(client: "Client", configuration: "Configuration") -> int:
    service = configuration.internal_cert_management.webhook_service_name
    place = f"/apis/discovery.k8s.io/v1/namespaces/{configuration.namespace}/endpointslices"
    slices = await _get(client, f"{place}?labelSelector=kubernetes.io/service-name%3D{service}") or {}
    endpoints = [each for part in slices.get("items") or () for each in part.get("endpoints") or ()]
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
