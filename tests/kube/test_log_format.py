"""What users write reaches logs and terminals as text, never as a command or another line."""

import json
import logging

import pytest

from pykueue.api import escaping
from pykueue.kube.log_format import EscapingFormatter, JsonFormatter, is_no_closed_connection

HOSTILE = "\x1b]0;owned\x07\x1b[2J\n2026-01-01 00:00:00 ERROR fake: forged\r\x9b31m\u202egnp\u2066\u2028\x7f"


def formatted(message, *arguments, exc_info=None):
    record = logging.LogRecord("a.b", logging.WARNING, __file__, 1, message, arguments, exc_info)
    return EscapingFormatter().format(record)


def is_harmless(text):
    return all(character.isprintable() or character in "\n\t" for character in text)


def test_a_message_is_one_printable_line():
    text = formatted("%s: retry", HOSTILE)
    assert text.isprintable()
    assert r"\x1b]0;owned\x07\x1b[2J\n2026" in text


def test_no_line_of_a_traceback_looks_like_a_message():
    error = ValueError(HOSTILE)
    text = formatted("failed", exc_info=(type(error), error, None))
    _, *rest = text.split("\n")
    assert is_harmless(text)
    assert all(line.startswith("  ") for line in rest)


def test_a_connection_that_its_peer_closed_is_no_error():
    closed = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    for error, is_logged in ((closed, False), (RuntimeError("other"), True)):
        exc_info = (type(error), error, None)
        record = logging.LogRecord("asyncio", logging.ERROR, __file__, 1, "Fatal error", (), exc_info)
        assert is_no_closed_connection(record) is is_logged


def test_plain_text_stays_as_it_is():
    assert formatted("größer 漢字 — %d", 1).endswith("WARNING a.b: größer 漢字 — 1")


@pytest.mark.parametrize(
    "character", ["\x1b", "\x07", "\r", "\x9b", "\u202e", "\u2066", "\u200f", "\u2028", "\x00", "\ud800"]
)
def test_a_control_character_is_escaped(character):
    assert escaping.paragraphs(f"a{character}b").isprintable()


def test_line_breaks_stay_in_paragraphs_only():
    assert (escaping.paragraphs("a\n\tb"), escaping.one_line("a\nb")) == ("a\n\tb", r"a\nb")


def test_json_is_one_printable_line_with_the_fields_of_a_decision():
    record = logging.LogRecord("pykueue.decisions", logging.INFO, __file__, 1, "%s", (HOSTILE,), None)
    record.fields = {"object": "default/a", "reason": "Admitted"}
    text = JsonFormatter().format(record)
    assert text.isprintable()
    entry = json.loads(text)
    assert (entry["level"], entry["message"], entry["object"], entry["reason"]) == (
        "info",
        HOSTILE,
        "default/a",
        "Admitted",
    )
