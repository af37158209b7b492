"""From client-side to server-side apply: kubectl has no conflict with its own fields.

Client-side apply stores the applied configuration in an annotation. Where the object still has
these values, a server-side apply by kubectl takes over the fields. `managed_fields.apply` calls
this before it refuses conflicts.
"""

import msgspec

from pykueue.api.scheme import Object
from pykueue.apiserver.patches import field_sets, typed
from pykueue.apiserver.patches.field_sets import Node
from pykueue.apiserver.patches.merge_schema import MergeSchema

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def still_as_applied(schema: MergeSchema, live: Object) -> Node | None:
    """The fields that client-side apply wrote and that have not changed since."""
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        applied = msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        return None
    if not isinstance(applied, dict):
        return None
    changed, removed = typed.compare(schema, applied, live)
    return field_sets.difference(field_sets.difference(typed.fields(schema, applied), changed), removed)
