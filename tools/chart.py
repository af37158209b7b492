"""Writes the generated parts of the Helm chart.

Run `python tools/chart.py` after a change of rules, rights or kinds.
"""

import shutil
from pathlib import Path

from pykueue.install import chart

CHART = Path(__file__).parents[1] / "charts" / "pykueue"

for folder in ("crds", "files"):
    shutil.rmtree(CHART / folder, ignore_errors=True)
for path, text in chart.files().items():
    target = CHART / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
