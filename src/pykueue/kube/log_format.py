"""The format of log lines. A message is always one line, whatever users have put into it.

The lines of a traceback are indented, so that none of them can look like another message.
"""

import json
import logging
import textwrap
import time

from pykueue.api import escaping

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


FORMATS = ("text", "json")


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with what `extra` says about a decision as fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{second}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)


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


def is_no_closed_connection(record: logging.LogRecord) -> bool:
    """A filter: uvloop logs an error when a peer closes a TLS connection in the middle of a read.

    asyncio's own loop does not.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and "the handler is closed" in str(error))


def _indented(text: str) -> str:
    return textwrap.indent(escaping.paragraphs(text), "  ")


def configure(level: str, log_format: str = "text") -> None:
    """Log to the terminal, from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else EscapingFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("asyncio").addFilter(is_no_closed_connection)
