"""Line charts as SVG, for the HTML report and for notebooks.

Colours are CSS variables of the page with fallbacks, so one drawing serves light and dark.
"""

import html
import math
from collections.abc import Sequence

from pykueue.simulate.report.text import duration, number

Series = tuple[str, Sequence[float]]

WIDTH, HEIGHT = 920, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 28
COLOURS = ("#2a78d6", "#eb6834", "#1baf7a", "#eda100", "#e87ba4", "#7a5cd6", "#008300", "#888780")
MOST_SERIES = len(COLOURS)
MOST_TICKS = 4
MOST_TIMES = 8
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 5, 10, 20, 50, 100)),
)
"""What is between two labels of the time axis, in seconds."""


def line_chart(series: Sequence[Series], *, interval_seconds: float, limit: float | None = None) -> str:
    """Lines over time; a dashed line marks the limit."""
    count = max((len(values) for _, values in series), default=0)
    highest = max([limit or 0.0, *(value for _, values in series for value in values)], default=0.0) or 1.0
    step = _round_step(highest / MOST_TICKS)
    top = math.ceil(highest / step) * step
    body = [*_grid(top, step), *_time_axis(count * interval_seconds)]
    for index, (name, values) in enumerate(series):
        points = " ".join(
            f"{_x(position, count):.1f},{_y(value, top):.1f}" for position, value in enumerate(_drawn(values))
        )
        colour = f"var(--series-{index % MOST_SERIES + 1}, {COLOURS[index % MOST_SERIES]})"
        title = html.escape(name)
        body.append(
            f'<polyline points="{points}" fill="none" style="stroke:{colour}" stroke-width="2" '
            f'stroke-linejoin="round"><title>{title}</title></polyline>'
        )
    if limit:
        y = _y(limit, top)
        body.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'style="stroke:var(--muted, #777)" stroke-width="1" stroke-dasharray="4 4"/>'
            f'<text x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end" class="tick">quota {number(limit)}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'data-count="{count}" data-left="{LEFT}" data-right="{RIGHT}">'
        "<style>.tick{font:11px system-ui,sans-serif;fill:var(--muted,#777)}</style>" + "".join(body) + "</svg>"
    )


def _drawn(values: Sequence[float]) -> Sequence[float]:
    return values if len(values) > 1 else [*values, *values]


def _x(position: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * position / max(1, count - 1)


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _round_step(value: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (or 0.5, 0.2, …) that is not smaller."""
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= value)


def _grid(top: float, step: float) -> list[str]:
    lines = []
    for position in range(round(top / step) + 1):
        y = _y(position * step, top)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'style="stroke:var(--line, #ddd)" stroke-width="1"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="tick">{position * step:,.6g}</text>'
        )
    return lines


def _time_axis(seconds: float) -> list[str]:
    step = next((step for step in TIME_STEPS if seconds <= MOST_TIMES * step), seconds / MOST_TIMES)
    return [
        f'<text x="{LEFT + (WIDTH - LEFT - RIGHT) * position * step / seconds:.1f}" y="{HEIGHT - 8}" '
        f'text-anchor="{"start" if position == 0 else "middle"}" class="tick">{duration(position * step)}</text>'
        for position in range(int(seconds / step) + 1)
        if position * step <= 0.97 * seconds
    ]
