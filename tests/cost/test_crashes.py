"""No text ends the process: every entry gets long texts in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LENGTHS = (200, 10_000)
DEEP_LENGTH = 200_000
DEEP = ("dashes", "flow", "questions", "deep", "open brackets", "nested")
PROGRAM = """
import contextlib, faulthandler, sys
from tests.cost.entries import ENTRIES
from pykueue.api.errors import ApiError
faulthandler.enable()
for name, entry in ENTRIES.items():
    for length in (*{lengths}, *([{deep_length}] if any(word in name for word in {deep}) else [])):
        call = entry(length)
        try:
            call()
        except (ApiError, ValueError):
            pass
        except BaseException as error:
            print(f"{{name}}, {{length}}: {{type(error).__name__}}", flush=True)
"""


def test_no_text_ends_the_process():
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(lengths=LENGTHS, deep_length=DEEP_LENGTH, deep=DEEP)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr[-2000:]
