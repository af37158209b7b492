"""What every verb needs: the store, the kinds, the settings of admission, and the time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from pykueue.api.scheme import Kind, Scheme, Settings
from pykueue.apiserver.admission import ServerAdmission
from pykueue.apiserver.calls import WriteCall
from pykueue.apiserver.objects import StoreLookup
from pykueue.apiserver.store.rows import Stored
from pykueue.apiserver.store.store import Store


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class Context:
    """Shared by all verbs; `settings` may be replaced while they serve."""

    store: Store
    scheme: Scheme
    settings: Settings
    clock: Callable[[], datetime] = now

    def admission(self, call: WriteCall, subresource: str, *, is_patch: bool = False) -> ServerAdmission:
        return ServerAdmission(
            call=call,
            lookup=StoreLookup(self.store, self.scheme),
            settings=self.settings,
            is_patch=is_patch,
            subresource=subresource,
        )


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb decided: the object as stored (or as it would be), to be shown when it is durable."""

    kind: Kind
    stored: Stored
    warnings: tuple[str, ...] = ()
    is_created: bool = False
    is_gone: bool = False
    is_written: bool = True
    """False for a dry run: there is nothing to wait for."""
