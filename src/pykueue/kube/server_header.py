"""The header `Server` of all our HTTP servers. It names no versions, which only attackers read."""

from aiohttp import web_response

NAME = "pykueue"


def hide_versions() -> None:
    """Replace the names and versions of Python and aiohttp in every answer of this process.

    aiohttp has no option for it. `tests/app/test_server_header.py` asks each of our servers.
    """
    web_response.SERVER_SOFTWARE = NAME  # type: ignore[attr-defined]
