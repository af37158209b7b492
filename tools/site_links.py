"""A hook of mkdocs: what links to files outside of `docs` names the file, because a site has none."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)((?!docs/)[^)]+)\)")


def on_page_markdown(markdown: str, /, *, page: Any, **_: Any) -> str:
    """Replace links that leave the folder of the documents."""
    depth = page.file.src_uri.count("/")

    def replaced(match: re.Match[str]) -> str:
        if match[2].count("../") <= depth:
            return match[0]
        return match[1] if match[1].strip("`") == match[3] else f"{match[1]} (`{match[3]}` in the repository)"

    return _OUTSIDE.sub(replaced, markdown)
