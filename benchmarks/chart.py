"""Draws docs/performance.svg and the table of docs/performance.md from the results of kueue_load.

    python benchmarks/kueue_load.py baseline --json benchmarks/results/pykueue-baseline.json
    python benchmarks/chart.py

A result is the JSON that `kueue_load.py --json` writes; `system` says what was measured.
"""

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
DOCUMENT = FOLDER.parent / "docs" / "performance.md"
CHART = FOLDER.parent / "docs" / "performance.svg"
START, END = "<!-- results -->\n", "<!-- end of results -->\n"
COLORS = {"pykueue": "#2c7fb8", "kueue": "#b0b0b0"}
LOADS = ("baseline", "large-scale", "tas")
WIDTH, LEFT, BAR, GAP, TOP = 940, 420, 20, 14, 40

Json = dict[str, Any]


def results() -> list[Json]:
    read = [json.loads(path.read_text()) for path in sorted((FOLDER / "results").glob("*.json"))]
    return sorted(read, key=lambda result: (LOADS.index(result["load"]), -result["workloads"], result["system"]))


def svg(measured: list[Json]) -> str:
    """Horizontal bars: the wall time of each result, grouped by load."""
    longest = max(result["wall_seconds"] for result in measured)
    parts, y, load = [], TOP, ""
    for result in measured:
        if load and result["load"] != load:
            y += GAP
        load = result["load"]
        width = max(2, (WIDTH - LEFT - 90) * result["wall_seconds"] / longest)
        color = COLORS["pykueue" if result["system"].startswith("pykueue") else "kueue"]
        label = f"{result['load']}, {result['workloads']:,} workloads: {result['system']}"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.0f}" height="{BAR}" fill="{color}"/>',
            f'<text x="{LEFT + width + 6:.0f}" y="{y + 15}">{result["wall_seconds"]:.0f} s</text>',
        ]
        y += BAR + 6
    title = "Time until every Workload of the load has finished (shorter is better)"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" '
        f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="10" y="22" font-weight="bold">{escape(title)}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def table(measured: list[Json]) -> str:
    lines = [
        "| load | system | wall time | admissions/s | writes a workload | CPU | peak memory | GET p50 / p99 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in measured:
        processes = result.get("processes", {}).values()
        cpu = sum(figures["cpu_seconds"] for figures in processes)
        memory = sum(figures["peak_rss_mb"] for figures in processes)
        get = result.get("get", {})
        cells = [
            f"{result['load']}: {result['workloads']:,} workloads, {result['queues']:,} queues",
            result["system"],
            f"{result['wall_seconds']:.0f} s",
            _shown(result.get("admissions_a_second")),
            _shown(result.get("writes_a_workload")),
            f"{cpu:.0f} s" if cpu else "–",
            f"{memory} MB" if memory else "–",
            f"{get['p50_ms']} / {get['p99_ms']} ms" if get else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def write() -> None:
    measured = results()
    CHART.write_text(svg(measured))
    before, _, rest = DOCUMENT.read_text().partition(START)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + START + "\n" + table(measured) + "\n" + END + after)


if __name__ == "__main__":
    write()
