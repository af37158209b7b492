"""Names of Workloads: kind and job name, cut to length, and five hex digits that keep them apart."""

import hashlib

from pykueue.api.scheme import Resource

MAX_NAME_LENGTH = 253
HASH_LENGTH = 5


def workload_name(resource: Resource, name: str, uid: str, extra: str = "") -> str:
    prefix = f"{resource.kind.lower()}-{name}"[: MAX_NAME_LENGTH - 1 - HASH_LENGTH]
    parts = [resource.kind, resource.group, name, uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{prefix}-{digest[:HASH_LENGTH]}"
