"""A certificate of our own, for servers whose clients do not verify it, as in Kueue."""

import datetime as dt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykueue.kube.issuing import KeyPair

_LIFE = dt.timedelta(days=3650)


def self_signed(name: str) -> "KeyPair":
    """The APIServices, and the monitors that Kueue ships, skip its verification."""
    from pykueue.kube import issuing

    now = dt.datetime.now(dt.UTC)
    life = issuing.Validity(begin=now, end=now + _LIFE)
    return issuing.make_server(issuing.make_authority(name, life), name, (name, "localhost"), life)
