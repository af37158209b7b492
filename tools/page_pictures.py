"""Pictures of the page, taken of the real page in Chromium.

    PYTHONPATH=. python tools/page_pictures.py all DIRECTORY              # every view, with 14 jobs
    PYTHONPATH=. python tools/page_pictures.py all DIRECTORY --many 50000  # with many workloads
    PYTHONPATH=. python tools/page_pictures.py readme docs                # page*.png and page.gif

`all` takes each view light and dark, on a desk and on a phone; look at them after a change of the
page. `readme` needs Pillow (`pip install pillow`), which nothing else of the project uses.
"""

import argparse
import asyncio
import contextlib
import io
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.dashboard import browser as browsers
from tools import page_clusters

Take = Callable[[str], Awaitable[None]]

LIVE = "!!document.querySelector('.connection.live')"
SIZES = {"desk": (1360, 860, False), "phone": (390, 844, True)}
_TALLEST = 2600


async def show(page: Any, view: str) -> None:
    await page.value(f"document.querySelector('dialog')?.close(), location.hash = '#/{view}'")
    await page.until("!!document.querySelector('main .card')")
    await asyncio.sleep(0.8)  # plots and bars move for a moment


async def open_row(page: Any, name: str) -> None:
    await show(page, "workloads")
    await page.until(f"""(() => {{ const row = [...document.querySelectorAll(".table .row:not(.head)")]
        .find((one) => one.innerText.includes("{name}")); if (!row) return false;
        (row.querySelector("a") || row).click(); return true; }})()""")
    await asyncio.sleep(1.5)  # its pods, events and log are read


async def open_report(page: Any, report: str) -> None:
    await show(page, "simulation")
    await page.value(f"""(() => {{ const input = document.querySelector("input[type=file]");
        const files = new DataTransfer();
        files.items.add(new File([{report!r}], "report.html", {{type: "text/html"}}));
        input.files = files.files; input.dispatchEvent(new Event("change", {{bubbles: true}})); }})()""")
    await asyncio.sleep(0.5)


async def preview_quota(page: Any, queue: str) -> None:
    await show(page, f"queues/{queue}")
    await page.click("Change quota")
    await page.until("document.querySelectorAll('dialog option').length > 1")
    await page.fill("dialog select", "0 0 2")
    await page.fill("dialog input", "16")
    await page.click("Preview")
    await page.until("(document.querySelector('#effect')?.innerText || '').includes('next 1h')", 60)


async def take_all(page: Any, take: Take, queue: str, report: str) -> None:
    """Every view, as it is after the cluster has been busy for a while."""
    for view in ("cluster", "queues", f"queues/{queue}", "workloads", "nodes", "preemptions"):
        await show(page, view)
        await take(view.replace("/", "-") if "/" not in view else "queue")
    for state in ("pending", "running", "finished"):
        with contextlib.suppress(browsers.PageError):
            await page.value("0")
            await open_row(page, state)
            await take(f"workload-{state}")
    await show(page, "simulation")
    await take("simulation-empty")
    if report:
        await open_report(page, report)
        await take("simulation")
        await show(page, "cluster")
        await page.click("Submit")
        await take("submit")
        await preview_quota(page, queue)
        await take("preview")
        await show(page, "cluster")
        await page.value("document.querySelector('[aria-label=Help]').click()")
        await take("help")


async def screenshot(page: Any, path: Path, size: tuple[int, int, bool]) -> None:
    """The whole page, as far as a reader would scroll."""
    width, height, is_mobile = size
    whole = await page.value("document.documentElement.scrollHeight")
    await page.resize(width, max(height, min(_TALLEST, whole)), is_mobile=is_mobile)
    await asyncio.sleep(0.3)
    await page.screenshot(path)
    await page.resize(width, height, is_mobile=is_mobile)


async def take_themes_and_sizes(browser: Any, link: Callable[[], str], directory: Path, **views: str) -> None:
    for theme in ("light", "dark"):
        for name, size in SIZES.items():
            page = await browser.new_page()
            await page.resize(size[0], size[1], is_mobile=size[2])
            await page.use_theme(theme)
            await page.open(await asyncio.to_thread(link))
            await page.until(LIVE, 120)
            await page.until("!!document.querySelector('main .card')", 60)

            async def take(
                view: str, *, page: Any = page, name: str = name, theme: str = theme, size: Any = size
            ) -> None:
                await screenshot(page, directory / f"{view}-{name}-{theme}.png", size)

            await take_all(page, take, **views)
            assert page.errors == [], page.errors
            await page.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.asynccontextmanager
async def real_cluster(directory: Path) -> AsyncIterator[page_clusters.BusyCluster]:
    """A `pykueue up` with simulated pods."""
    (directory / "nodes.yaml").write_text(page_clusters.nodes())
    words = ["up", "--bare", "--runtime", "simulated", "--data-dir", str(directory / "data")]
    words += ["--listen", f"127.0.0.1:{free_port()}", "--dashboard-port", str(free_port())]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pykueue", *words, "--nodes", str(directory / "nodes.yaml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        cluster = page_clusters.BusyCluster(directory / "data" / "kubeconfig")
        await cluster.create_queues()
        yield cluster
        await cluster.close()
    finally:
        process.terminate()
        await process.wait()


def report(directory: Path) -> str:
    """A report of `pykueue simulate`."""
    words = [
        "simulate",
        "--from-cluster",
        "0",
        "--kubeconfig",
        str(directory / "data" / "kubeconfig"),
        "--generate",
        "jobs=200",
    ]
    words += ["--html", str(directory / "report.html")]
    subprocess.run([sys.executable, "-m", "pykueue", *words], check=False, capture_output=True, cwd=directory)
    file = directory / "report.html"
    return file.read_text() if file.exists() else ""


async def all_views(directory: Path, many: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        async with browsers.opened() as browser:
            if many:
                async with page_clusters.many_workloads(Path(scratch), many) as link:
                    await take_themes_and_sizes(browser, link, directory, queue="queue-03", report="")
                return
            async with real_cluster(Path(scratch)) as cluster:
                await cluster.be_busy()
                await asyncio.sleep(45)  # a few samples for the plots
                text = await asyncio.to_thread(report, Path(scratch))
                await take_themes_and_sizes(browser, cluster.link, directory, queue="speech", report=text)


async def frames(page: Any, cluster: page_clusters.BusyCluster) -> AsyncIterator[tuple[bytes, int]]:
    """Pictures with the milliseconds for which each is shown."""

    async def frame() -> bytes:
        with tempfile.NamedTemporaryFile(suffix=".png") as file:
            await page.screenshot(Path(file.name))
            return await asyncio.to_thread(Path(file.name).read_bytes)

    await show(page, "workloads?state=active")
    yield await frame(), 900
    for number, submit in enumerate(cluster.arrivals()):
        await submit()
        await asyncio.sleep(1.2)
        if number % 2:
            yield await frame(), 1000
    await asyncio.sleep(3)
    yield await frame(), 2000
    await show(page, "cluster")
    yield await frame(), 2500
    await open_row(page, "pending")
    yield await frame(), 3000
    await show(page, "preemptions")
    yield await frame(), 2500


async def readme(directory: Path) -> None:
    from PIL import Image

    with tempfile.TemporaryDirectory() as scratch:
        async with browsers.opened() as browser, real_cluster(Path(scratch)) as cluster:
            page = await browser.new_page()
            await page.resize(1180, 700)
            await page.use_theme("light")
            await page.open(await asyncio.to_thread(cluster.link))
            await page.until(LIVE)
            await asyncio.sleep(60)  # a few samples for the plots
            pictures = [picture async for picture in frames(page, cluster)]
            await page.resize(1360, 690)
            for view, name in (("cluster", "page-cluster"), ("workloads?state=active", "page-workloads")):
                await show(page, view)
                await page.screenshot(directory / f"{name}.png")
                small(Image.open(directory / f"{name}.png")).save(directory / f"{name}.png", optimize=True)
    images = [small(Image.open(io.BytesIO(data)).resize((826, 490))) for data, _ in pictures]
    times = [time for _, time in pictures]
    images[0].save(
        directory / "page.gif", save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True
    )


def small(image: Any) -> Any:
    """With a palette of its own: a third of the bytes, and no difference that one sees."""
    from PIL import Image

    return image.convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["all", "readme"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--many", type=int, default=0)
    options = parser.parse_args()
    if options.what == "readme":
        asyncio.run(readme(options.directory))
        return
    options.directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(all_views(options.directory, options.many))


if __name__ == "__main__":
    main()
