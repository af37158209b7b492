"""The HTML report in a real Chromium: it runs its script and draws the jobs."""

import re
import shutil
import subprocess

import pytest
from tests.simulate.worlds import Jobs, World, cluster_queue, flavor, local_queue

from pykueue.simulate import planning
from pykueue.simulate.report import html_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")

PROBE = """<script>
const pixels = new Set(context.getImageData(0, 0, canvas.width, canvas.height).data);
document.title = ["runs", document.getElementById("range").textContent, "theme", root.dataset.theme, "shades", pixels.size].join(" ");
</script></body>"""


def opened(tmp_path, jobs, *flags):
    """The title that a script at the end of the page sets, in a browser without a network."""
    queues = [flavor(), cluster_queue("team-a", 4), local_queue("team-a")]
    table = Jobs(World.from_objects(queues))
    for number in range(jobs):
        table.add(f"job-{number}", 1 + number % 3, at=number, run=20)
    result = planning.run(planning.SimulationPlan(objects=queues, jobs=table.table))
    path = tmp_path / "report.html"
    path.write_text(html_page.page(result.figures, result.outcomes).replace("</body>", PROBE))
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
        "--host-resolver-rules=MAP * ~NOTFOUND", *flags, "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    document = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout
    return re.search(r"<title>(.*?)</title>", document).group(1)


@pytest.mark.parametrize(("setting", "theme"), [(1, "light"), (0, "dark")])
def test_the_page_draws_every_run_in_the_theme_of_the_reader(tmp_path, setting, theme):
    title = opened(tmp_path, 50, f"--blink-settings=preferredColorScheme={setting}")
    match = re.fullmatch(r"runs 50 runs theme (\w+) shades (\d+)", title)
    assert match is not None, title
    assert match[1] == theme
    assert int(match[2]) > 5
