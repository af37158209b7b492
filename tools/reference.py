"""Writes the reference pages of the documentation: commands, Configuration, annotations.

    python tools/reference.py

The commands describe themselves, the Configuration has one type, and the annotations are constants
with a sentence each. `tests/docs/test_site.py` compares the pages with what this script writes.
"""

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from pykueue.api.configuration import types
from pykueue.cli.main import cli

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
_DECLARATION = re.compile(
    r'^(?P<name>[A-Z_]+) = "(?P<key>pykueue\.dev/[a-z-]+)"\n"""(?P<text>.*?)"""', re.MULTILINE | re.DOTALL
)


def commands() -> str:
    parts = ["# Commands\n\nEvery command has `--help`. This page is generated from the commands.\n"]
    for path, command in _commands(cli, "pykueue"):
        context = click.Context(command, info_name=path)
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        text = re.sub(r"^ {8}", "    ", _dedented(command.help or ""), flags=re.MULTILINE)
        parts.append(f"## {path}\n\n    {usage}\n\n{text}\n")
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        rows = [f"| {_names(option)} | {_cell(_help(option, context))} |" for option in options]
        if rows:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _dedented(text: str) -> str:
    return text.replace("\b\n", "").strip()


def _names(option: click.Option) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _help(option: click.Option, context: click.Context) -> str:
    default = option.get_default(context, call=False)
    if isinstance(default, tuple):
        default = "`, `".join(map(str, default))
    shown = f" Default: `{default}`." if option.show_default and default is not None and not option.is_flag else ""
    choices = getattr(option.type, "choices", ())
    values = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"{option.help or ''}{values}{shown}"


def configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "The fields of the Kueue Configuration (`--config`), with their defaults. This page is generated",
        "from the type. [Compatibility](../compatibility.md) says what each field and feature gate does.",
        "",
    ]
    for struct in _structs(types.Configuration):
        lines += [f"## {struct.__name__}", "", *(struct.__doc__ or "").strip().splitlines(), ""]
        lines += ["| field | type | default |", "|---|---|---|"]
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            default = "" if field.default is msgspec.NODEFAULT else _value(field)
            lines.append(f"| `{field.encode_name}` | {_cell(_type(hints[field.name]))} | {_cell(default)} |")
        lines.append("")
    return "\n".join(lines)


def _structs(root: type) -> Iterator[type]:
    """The type and every type that its fields have, each once."""
    pending, seen = [root], {root}
    while pending:
        struct = pending.pop(0)
        yield struct
        for hint in typing.get_type_hints(struct).values():
            for part in _parts(hint):
                if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
                    seen.add(part)
                    pending.append(part)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _type(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return f"[{hint.__name__}](#{hint.__name__.lower()})" if issubclass(hint, msgspec.Struct) else hint.__name__
    arguments = [part for part in typing.get_args(hint) if part is not type(None) and part is not ...]
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f"`{part}`" for part in arguments)
    origin = getattr(typing.get_origin(hint), "__name__", "")
    if origin in ("tuple", "list"):
        return f"list of {_type(arguments[0])}"
    if origin in ("dict", "Mapping"):
        return "object"
    return " or ".join(_type(part) for part in arguments) or str(hint).replace("typing.", "")


def _value(field: Any) -> str:
    if field.default is None or field.default == "" or isinstance(field.default, msgspec.Struct):
        return ""
    if field.name.endswith("_ns"):
        return f"`{field.default / 10**9:g}s`"
    return f"`{field.default}`"


def annotations() -> str:
    lines = [
        "# Annotations",
        "",
        "Those that a user sets, and those that only pykueue writes. This page is generated from the code.",
        "",
        "| annotation | meaning |",
        "|---|---|",
    ]
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src" / "pykueue").rglob("*.py")):
        for match in _DECLARATION.finditer(path.read_text()):
            found[match["key"]] = " ".join(match["text"].split())
    found |= _SIMULATION
    lines += [f"| `{key}` | {_cell(found[key])} |" for key in sorted(found)]
    return "\n".join(lines) + "\n"


_SIMULATION = {
    "pykueue.dev/runtime": "A user, of a pod: how long it runs on simulated nodes (`90`, `30s`, `until-deleted`).",
    "pykueue.dev/exit-code": "A user, of a pod: its exit code on simulated nodes.",
    "pykueue.dev/pull": "A user, of a pod: how long a simulated node pulls an image for the first time.",
}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {"commands.md": commands, "configuration.md": configuration, "annotations.md": annotations}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write())


if __name__ == "__main__":
    main()
