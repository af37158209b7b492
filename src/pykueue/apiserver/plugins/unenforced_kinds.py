"""Warns of objects that are stored but have no effect on the embedded API.

People rely on policies. An answer that looks like success would be a lie about them.
"""

from pykueue.api.scheme import AdmissionRequest, Kind
from pykueue.apiserver.calls import WriteCall

_ADMISSION = "admissionregistration.k8s.io"
_NO_WEBHOOKS = "this API server calls no webhooks"
_REASONS = {
    (_ADMISSION, "MutatingWebhookConfiguration"): _NO_WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _NO_WEBHOOKS,
    ("apiregistration.k8s.io", "APIService"): "this API server forwards no requests",
    ("apps", "DaemonSet"): "no controller creates its pods",
    ("", "ReplicationController"): "no controller creates its pods",
    ("", "PersistentVolumeClaim"): "there are no persistent volumes",
    ("networking.k8s.io", "NetworkPolicy"): "pods share the network of this machine",
    ("policy", "PodDisruptionBudget"): "this API server serves no evictions",
}
"""Why a kind has no effect, by group and kind; some exist only if a user defines them."""


class UnenforcedKinds:
    """The admission plugin."""

    def validate(self, kind: Kind, request: AdmissionRequest, _call: WriteCall) -> list[str]:
        reason = _REASONS.get((kind.group, kind.kind))
        if reason is None or request.subresource:
            return []
        return [f"this {kind.kind} is stored, but it has no effect: {reason}"]
