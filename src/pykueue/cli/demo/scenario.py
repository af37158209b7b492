"""Demo scenarios, read from `demo.yaml` in the folder of each example.

A scenario is a list of steps. A step prints a sentence, applies or deletes manifests, and waits
until jobs have reached a state.
"""

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
    """Files to apply, in order. An object with `generateName` is created each time."""
    delete: tuple[str, ...] = ()
    """Files whose objects are deleted, all of them if they were created several times."""
    until: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By state of a job: prefixes of the names of different jobs that must be in that state."""
    hold_seconds: float = DEFAULT_HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    folder: Path
    title: str
    steps: tuple[Step, ...]
    workers: Mapping[str, str] = field(default_factory=dict)
    """Clusters beside the one of the demo: the file of their objects, by their names."""

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
    """The folders of the examples by name, without their numbers.

    They are inside the installed package, or at the top of the repository.
    """
    package = Path(pykueue.__file__).parent
    files = sorted((*package.glob("examples/*/demo.yaml"), *package.parents[1].glob("examples/*/demo.yaml")))
    return {file.parent.name.partition("-")[2]: file.parent for file in files}


def load(name: str) -> Scenario:
    """Load a scenario by its name or number."""
    by_name = folders()
    matching = [folder for short, folder in by_name.items() if name in (short, folder.name, folder.name[:3])]
    if not matching:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(by_name)}", param_hint="NAME")
    folder = matching[0]
    document = yaml.safe_load((folder / "demo.yaml").read_text())
    steps, workers = tuple(map(_step, document["steps"])), document.get("workers") or {}
    return Scenario(folder=folder, title=document["title"], steps=steps, workers=workers)


def _step(document: Mapping[str, Any]) -> Step:
    return Step(
        say=document["say"],
        apply=tuple(document.get("apply") or ()),
        delete=tuple(document.get("delete") or ()),
        until={state: tuple(names) for state, names in (document.get("until") or {}).items()},
        hold_seconds=float(document.get("hold", DEFAULT_HOLD_SECONDS)),
    )
