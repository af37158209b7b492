"""From client-side to server-side apply: what `kubectl apply` wrote before is kubectl's own, and no conflict with it.

Client-side apply leaves a copy of what it applied in an annotation. Where the object still has these values, a
server-side apply by kubectl may take the fields over. Asked by `managed_fields.apply` before it refuses conflicts.
"""

import msgspec

from pykueue.api.scheme import Object
from pykueue.apiserver.patches import field_sets, typed
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.shapes import Shape

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def still_as_applied(shape: Shape, live: Object) -> Node | None:
    """The fields that client-side apply wrote and nobody has changed since."""
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        applied = msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None
    if not isinstance(applied, dict):
        return None
    changed, removed = typed.compare(shape, applied, live)
    return field_sets.difference(field_sets.difference(typed.fields(shape, applied), changed), removed)
