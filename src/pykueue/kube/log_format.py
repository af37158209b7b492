"""The format of log lines. A message is always one line, whatever users have put into it.

The lines of a traceback are indented, so that none of them can look like another message.
"""

import logging
import textwrap

from pykueue.api import escaping

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EscapingFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(LOG_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        record.message = escaping.one_line(record.getMessage())
        record.asctime = self.formatTime(record)
        lines = [self.formatMessage(record)]
        if record.exc_info:
            lines.append(_indented(self.formatException(record.exc_info)))
        if record.stack_info:
            lines.append(_indented(self.formatStack(record.stack_info)))
        return "\n".join(lines)


def _indented(text: str) -> str:
    return textwrap.indent(escaping.paragraphs(text), "  ")


def configure(level: str) -> None:
    """Log to the terminal, from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
