"""Small YAML files that commands read besides manifests: options and mappings."""

from pathlib import Path
from typing import Any

import click
import yaml


def load(path: Path) -> Any:
    """The only document of a YAML file; a click error names the file and the place."""
    try:
        return yaml.safe_load(path.read_text())
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: {' '.join(str(error).split())}") from None
