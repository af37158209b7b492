"""The plays: read from `demo.yaml` in each example's folder. A play is a list of steps; a step says, does and waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml

import pykueue
from pykueue.api import manifests
from pykueue.api.scheme import Object

DEFAULT = "gpu-preemption"
DEFAULT_HOLD_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    say: str
    apply: tuple[str, ...] = ()
    """Files, applied in order; objects with a generated name are created anew each time."""
    delete: tuple[str, ...] = ()
    """Files whose objects, however often they were created, are deleted."""
    until: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By state of a job, beginnings of the names of different jobs that must be in it."""
    hold_seconds: float = DEFAULT_HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    folder: Path
    title: str
    steps: tuple[Step, ...]

    @property
    def nodes(self) -> Path:
        return self.folder / "nodes.yaml"

    @property
    def configuration(self) -> Path | None:
        path = self.folder / "kueue-values.yaml"
        return path if path.exists() else None

    def objects(self, file: str) -> list[Object]:
        path = self.folder / file
        documents, faults = manifests.read(path.read_bytes(), str(path))
        assert not faults, faults[0]
        return [document.object for document in documents]


def folders() -> dict[str, Path]:
    """The examples by name, without their numbers: beside the package when installed, else those of the repository."""
    package = Path(pykueue.__file__).parent
    found = sorted((*package.glob("examples/*/demo.yaml"), *package.parents[1].glob("examples/*/demo.yaml")))
    return {path.parent.name.partition("-")[2]: path.parent for path in found}


def load(name: str) -> Story:
    """By name or number."""
    known = folders()
    matching = [folder for plain, folder in known.items() if name in (plain, folder.name, folder.name[:3])]
    if not matching:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint="NAME")
    folder = matching[0]
    document = yaml.safe_load((folder / "demo.yaml").read_text())
    return Story(folder=folder, title=document["title"], steps=tuple(map(_step, document["steps"])))


def _step(document: Mapping[str, Any]) -> Step:
    return Step(
        say=document["say"],
        apply=tuple(document.get("apply") or ()),
        delete=tuple(document.get("delete") or ()),
        until={state: tuple(names) for state, names in (document.get("until") or {}).items()},
        hold_seconds=float(document.get("hold", DEFAULT_HOLD_SECONDS)),
    )
