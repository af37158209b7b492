r"""Text of users for terminals and logs.

A name or a message may contain what a terminal obeys: escape sequences, line breaks, marks that
reverse the direction of writing. They are shown as Python writes them (`\x1b`), never sent raw.
"""

import codecs

_ESCAPE = codecs.lookup("unicode_escape").encode
"""Looked up here: later there may be no descriptor left to import it with."""


def one_line(text: str) -> str:
    """The text in one line, with every character that is not printable escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def paragraphs(text: str) -> str:
    """As `one_line`, but line breaks and tabs stay."""
    return "\n".join(map(_with_tabs, text.split("\n")))


def _with_tabs(line: str) -> str:
    return line if line.isprintable() else "\t".join(map(one_line, line.split("\t")))


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\xa0":
        return character
    return _ESCAPE(character)[0].decode("ascii")
