"""The types of Kubernetes and the job frameworks. Used by `kinds`, patches and protobuf."""

import functools
import pkgutil

from pykueue.api.builtin.notation import Types
from pykueue.api.scheme import Schema

_FILES = ("kubernetes.types", "frameworks.types")


@functools.cache
def types() -> Types:
    return Types(_texts())


@functools.cache
def recursive_types() -> Types:
    """As `types`, but schemas of types that contain themselves refer to themselves."""
    return Types(_texts(), is_recursive=True)


def _texts() -> list[str]:
    files = (pkgutil.get_data(__package__, file) for file in _FILES)
    return [data.decode() for data in files if data is not None]


def of_kind(api_version: str, kind: str) -> Schema:
    """The schema of a whole object."""
    return types().schema(types().kinds[api_version, kind])
