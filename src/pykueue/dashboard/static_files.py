"""The files of the page, and the headers that keep other sites away from it."""

from dataclasses import dataclass
from pathlib import Path

PREFIX = "/dashboard"
_DIRECTORY = Path(__file__).parent / "static"
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Sent with every file: only own scripts and styles, no frames, nothing for other origins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    data: bytes
    content_type: str


def load() -> dict[str, StaticFile]:
    """The files by path. The page itself is at `/dashboard/`."""
    files = {}
    for path in sorted(_DIRECTORY.rglob("*")):
        if path.suffix in _CONTENT_TYPES:
            name = path.relative_to(_DIRECTORY).as_posix()
            files[f"{PREFIX}/{name}"] = StaticFile(data=path.read_bytes(), content_type=_CONTENT_TYPES[path.suffix])
    files[f"{PREFIX}/"] = files[PREFIX] = files[f"{PREFIX}/index.html"]
    return files
