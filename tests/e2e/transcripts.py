"""Masks the parts of shell transcripts that differ from run to run."""

import re
from itertools import groupby

NAME = "xxxxx"
_MASKS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "0000-00-00T00:00:00Z"),
    (r"-[bcdfghjklmnpqrstvwxz0-9]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", f"-{NAME}-{NAME}"),
    (r"\breplicaset\.apps/(\S+)-[bcdfghjklmnpqrstvwxz0-9]{8,10}\b", rf"replicaset.apps/\1-{NAME}"),
    (r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9a-f]{5})\b", f"-{NAME}"),
    (r"\b(?:\d+[dhms]){1,2}(?= *$)", "AGE"),
    (r" +\d+[ms]\d*s? +AGE$", " AGE"),
    (r"<none> +(?:\d+[dhms]){1,2} +v1", "<none>   AGE   v1"),
)


def masked(transcript):
    """Mask random names, ages and times. Rows with random names are sorted."""
    lines = [_masked_line(line) for line in transcript.splitlines()]
    runs = groupby(lines, key=lambda line: NAME in line)
    return [line for is_random, run in runs for line in (sorted(run) if is_random else run)]


def _masked_line(line):
    for pattern, replacement in _MASKS:
        line = re.sub(pattern, replacement, line)
    return line.rstrip()
