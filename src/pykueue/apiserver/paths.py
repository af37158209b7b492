"""Where the embedded API keeps its files, and where it listens.

Commands read it without loading the server.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPaths:
    """The data directory and the address of the embedded API. Port 0 takes any free port."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Names and addresses by which other machines reach the API; kubeconfigs have the first."""

    @property
    def tokens(self) -> Path:
        return self.directory / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.directory / "pki"
