"""Creates the events of this process's own controllers, many at once.

Events are nearly half of all writes. Those of our controllers have one of few forms, which
`kube.controller.event_recorder` makes, so that neither their fields nor their names can be wrong:
what is left to check is the namespace. `Core` creates them one by one, as those of other writers,
while a webhook or a policy may have something to say about them.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from pykueue.api import entropy, times
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver import namespace_lifecycle, versions
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.patches import managed_fields, merge_schema
from pykueue.apiserver.patches.managed_fields import Writer
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.store.store import Store

_Form = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The version of an event, its fields, and the fields of its reference to an object."""


class EventWriter:
    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._time = ""
        self._managers: dict[_Form, msgspec.Raw] = {}
        """The `managedFields` of an event of this second, by its form."""

    def create(self, kind: Kind, event: Object, manager: str) -> Stored | None:
        """Write an event, which is not changed; None if its name is taken.

        ApiError if the namespace does not accept new objects.
        """
        metadata = event["metadata"]
        target = ResourceTarget(kind=kind, namespace=metadata["namespace"])
        namespace_lifecycle.check_accepts_new_content(self._store, target, metadata["name"])
        key = versions.key_of(kind, metadata["namespace"], metadata["name"])
        if self._store.head(key) is not None:
            return None
        now = times.to_text(self._clock())
        identity = {**metadata, "uid": entropy.new_uid(), "creationTimestamp": now}
        identity["managedFields"] = self._managed_fields(kind, event, now, manager)
        obj = {**versions.to_storage(kind, event), "metadata": identity}
        return self._store.put(key, versions.completed(key, obj))

    def _managed_fields(self, kind: Kind, event: Object, now: str, manager: str) -> msgspec.Raw:
        if now != self._time:
            self._time = now
            self._managers.clear()
        reference = event.get("regarding") or event["involvedObject"]
        form = (kind.api_version, tuple(event), tuple(reference))
        fields = self._managers.get(form)
        if fields is None:
            writer = Writer(name=manager, api_version=kind.api_version, time=now)
            holder: Object = {"metadata": {}}
            owners = managed_fields.after_update(merge_schema.of(kind), None, event, managers={}, writer=writer)
            managed_fields.write(holder, owners)
            fields = self._managers[form] = holder["metadata"]["managedFields"]
        return fields
