"""How many objects of a kind a namespace may have, if each of them is read at every write.

Kubernetes has no such limit. Here a write is one step of the event loop, so that a namespace with
thousands of quotas would hold up the users of all others (docs/differences.md).
"""

from pykueue.api import errors, objects
from pykueue.api.scheme import AdmissionRequest, Kind
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.store.store import Store

MOST = {("", "resourcequotas"): 100, ("", "limitranges"): 100}
"""Of a namespace."""


class ObjectLimits:
    def __init__(self, store: Store) -> None:
        self._store = store

    def validate(self, kind: Kind, request: AdmissionRequest, _call: WriteCall) -> list[str]:
        most = MOST.get((kind.group, kind.plural))
        namespace = objects.namespace(request.object)
        if most is None or request.old is not None or len(self._store.heads(kind.group, kind.plural, namespace)) < most:
            return []
        why = f"namespace {namespace} has {most} {kind.plural} already, which is the most; delete one first"
        raise errors.forbidden(kind.group, kind.plural, objects.name(request.object), why)
