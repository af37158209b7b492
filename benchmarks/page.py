"""Cost of the page: 50,000 workloads in a real Chromium, and 50 changes a second on the server.

    PYTHONPATH=. python benchmarks/page.py [WORKLOADS]

The API and the page run in this process without controllers, so that its CPU time is theirs.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.dashboard import browser as browsers

from pykueue.api import registry, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.paths import ServerPaths
from pykueue.dashboard.embedded import EmbeddedDashboard

CHANGES_A_SECOND = 50
SECONDS = 10
ROUNDS = 4
LIVE = "!!document.querySelector('.connection.live')"


def workload(number: int) -> Object:
    requests = {"cpu": str(1 + number % 8), "nvidia.com/gpu": str(1 + number % 2)}
    container = {"name": "main", "image": "i", "resources": {"requests": requests}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": f"job-train-{number:05d}", "labels": {"user": f"user-{number % 40}"}},
        "spec": {
            "queueName": f"queue-{number % 20}",
            "priority": number % 5,
            "podSets": [
                {
                    "name": "main",
                    "count": 1 + number % 4,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                }
            ],
        },
    }


async def change(api: EmbeddedApi, total: int, seconds: float) -> float:
    """Change one workload after the other; return the CPU seconds of this process."""
    client, started, cpu = api.client(), time.monotonic(), time.process_time()
    for number in range(int(seconds * CHANGES_A_SECOND)):
        patch = {"spec": {"priority": number % 7}}
        await client.patch(resources.WORKLOAD, f"job-train-{number * 37 % total:05d}", "default", patch)
        await asyncio.sleep(max(0.0, started + (number + 1) / CHANGES_A_SECOND - time.monotonic()))
    return time.process_time() - cpu


async def browser_bytes(page: Any, process: asyncio.subprocess.Process) -> tuple[float, int]:
    """The heap of the page, and the memory of its renderer as the kernel counts it."""
    await page.send("HeapProfiler.collectGarbage")
    heap = (await page.send("Runtime.getHeapUsage"))["usedSize"]
    return heap, await asyncio.to_thread(largest_renderer, process.pid)


def largest_renderer(browser: int) -> int:
    """Renderers are children of a helper process of the browser."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    largest = 0
    for pid in parents:
        above = pid
        while above and above != browser:
            above = parents.get(above, 0)
        with contextlib.suppress(OSError):
            entry = Path(f"/proc/{pid}")
            if above == browser and b"--type=renderer" in (entry / "cmdline").read_bytes():
                pss = [line for line in (entry / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
                largest = max(largest, int(pss[0].split()[1]) * 1024)
    return largest


async def all_rows(page: Any, total: int) -> None:
    await page.value("location.hash = '#/workloads'")
    await page.until("document.querySelectorAll('.scroll .row').length > 10", 60)
    await page.until(f"document.querySelector('#count').innerText === '{total:,}'", 120)


async def server_share(api: EmbeddedApi, page: Any, total: int, directory: Path) -> None:
    """Measure with and without the page in turns, because other work on the machine comes and goes."""
    shares, without = [], []
    for _ in range(ROUNDS):
        dashboard = EmbeddedDashboard(api, port=0, totals=dict, directory=directory)
        await dashboard.start()
        await page.open(dashboard.link())
        await page.until(LIVE, 120)
        await all_rows(page, total)
        await change(api, total, 2)
        with_page = await change(api, total, SECONDS)
        await page.open("about:blank")
        await dashboard.stop()
        await change(api, total, 2)
        without.append(await change(api, total, SECONDS) / SECONDS * 100)
        shares.append(with_page / SECONDS * 100 - without[-1])
    shares.sort()
    print(
        f"server: {statistics.median(shares):.2f} % of a core for the page at {CHANGES_A_SECOND} changes a second,"
        f" median of {ROUNDS} rounds ({shares[0]:.2f} to {shares[-1]:.2f}; {statistics.median(without):.1f} % without)"
    )


async def main(total: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = ServerPaths(directory=Path(directory) / "data", host="127.0.0.1", port=0)
        api = EmbeddedApi(paths, registry.scheme())
        await api.start()
        dashboard = EmbeddedDashboard(api, port=0, totals=dict, directory=Path(directory))
        await dashboard.start()
        client = api.client()
        for start in range(0, total, 500):
            numbers = range(start, min(total, start + 500))
            await asyncio.gather(*(client.create(resources.WORKLOAD, workload(n), "default") for n in numbers))
        print(f"{total:,} workloads", flush=True)
        await change(api, total, SECONDS)  # the first changes after so many creations cost more
        async with browsers.opened() as browser:
            page = await browser.new_page()
            started = time.monotonic()
            await page.open(dashboard.link())
            await page.until(LIVE, 120)
            print(f"live after {time.monotonic() - started:.1f} s", flush=True)
            paint = "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0]"
            print(f"first paint after {await page.until(paint):.0f} ms")
            await all_rows(page, total)
            print(f"all rows after {time.monotonic() - started:.1f} s", flush=True)
            await change(api, total, SECONDS)
            heap, renderer = await browser_bytes(page, browser.process)
            print(f"browser: heap {heap / 1e6:.0f} MB, renderer {renderer / 1e6:.0f} MB")
            scrolled = await page.value("""(async () => { const element = document.querySelector('.scroll');
                const before = performance.now(); let frames = 0;
                for (let step = 1; step <= 60; step++) { element.scrollTop = step * 20000;
                  await new Promise(requestAnimationFrame); frames++; }
                return (performance.now() - before) / frames; })()""")
            print(f"scrolling: {scrolled:.1f} ms a frame")
            if len(sys.argv) > 2:
                await page.resize(1360, 860)
                for theme in ("light", "dark"):
                    await page.use_theme(theme)
                    for view in ("cluster", "workloads"):
                        await page.value(f"location.hash = '#/{view}'")
                        await asyncio.sleep(1)
                        await page.screenshot(Path(sys.argv[2]) / f"many-{view}-{theme}.png")
            await dashboard.stop()
            await server_share(api, page, total, Path(directory))
        await api.stop()


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000))
