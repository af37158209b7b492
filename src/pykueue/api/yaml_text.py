"""Writes objects as YAML that every reader takes for what it is: `yes`, `0644`, `1e3` and `12:30` stay text. Used by every command
that prints manifests.
"""

from collections.abc import Iterable
from typing import Any

import yaml

from pykueue.api.scheme import Object
from pykueue.api.yaml_scalars import NotJsonError, plain_value


class _Dumper(yaml.CSafeDumper):
    """Never writes aliases, and quotes whatever `manifests` would read as something else than text."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and not _has_odd_lines(value) else None
    if style is None and not _is_safe_plain(value):
        style = "'" if value.isprintable() and value else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _has_odd_lines(value: str) -> bool:
    return any(line != line.rstrip() for line in value.split("\n")) or "\t" in value or value[0] in " \n"


def _is_safe_plain(value: str) -> bool:
    try:
        return bool(plain_value(value, None, is_plain=True) == value)
    except NotJsonError:
        return False


_Dumper.add_representer(str, _text)


def dump(objects: Iterable[Object]) -> str:
    """One document for each object, in the order of its fields."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, allow_unicode=True, width=2**20)
