r"""Text of users for terminals and logs.

A name or a message may contain what a terminal obeys: escape sequences, line breaks, marks that
reverse the direction of writing. They are shown as Python writes them (`\x1b`), never sent raw.
"""

import codecs

_LINE_BREAKS_AND_TABS = "\n\t"
_ESCAPE = codecs.lookup("unicode_escape").encode
"""Looked up here: later there may be no descriptor left to import it with."""


def one_line(text: str) -> str:
    """The text in one line, with every character that is not printable escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def paragraphs(text: str) -> str:
    """As `one_line`, but line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(character if character in _LINE_BREAKS_AND_TABS else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character.isprintable() or character == "\xa0":
        return character
    return _ESCAPE(character)[0].decode("ascii")
