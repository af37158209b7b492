"""Warns of objects that are stored but have no effect on the embedded API.

People rely on policies. An answer that looks like success would be a lie about them.
"""

from pykueue.api.scheme import AdmissionRequest, Kind
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.plugins.token_secrets import TOKEN_SECRET, has_token

_REASONS = {
    ("apiregistration.k8s.io", "APIService"): "this API server forwards no requests",
    ("apps", "DaemonSet"): "no controller creates its pods",
    ("", "PersistentVolume"): "no controller binds it to a claim",
    ("", "PersistentVolumeClaim"): "there are no persistent volumes",
    ("autoscaling", "HorizontalPodAutoscaler"): "no controller scales its target",
    ("certificates.k8s.io", "CertificateSigningRequest"): "no controller signs certificates",
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): "users share this API server by fixed limits",
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): "users share this API server by fixed limits",
    ("networking.k8s.io", "Ingress"): "nothing routes its requests",
    ("networking.k8s.io", "IngressClass"): "nothing routes requests",
    ("networking.k8s.io", "NetworkPolicy"): "pods share the network of this machine",
    ("storage.k8s.io", "StorageClass"): "no controller provisions volumes",
}
"""Why a kind has no effect, by group and kind; some exist only if a user defines them."""

_NO_TOKEN = "no token is written to this Secret: its service account does not exist, or you may not get Secrets"  # noqa: S105


class UnenforcedKinds:
    """The admission plugin."""

    def validate(self, kind: Kind, request: AdmissionRequest, _call: WriteCall) -> list[str]:
        reason = _REASONS.get((kind.group, kind.kind))
        if kind.kind == "Secret" and not kind.group and request.object.get("type") == TOKEN_SECRET:
            return [] if has_token(request.object) else [_NO_TOKEN]
        if reason is None or request.subresource:
            return []
        return [f"this {kind.kind} is stored, but it has no effect: {reason}"]
