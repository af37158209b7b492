"""Draws a `Board` with rich; called by `pykueue top` and by the live view of `pykueue demo`."""

import time
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pykueue.dashboard import board as boards
from pykueue.dashboard import rows

_COLORS = {
    "pending": "yellow",
    "reserved": "magenta",
    "starting": "cyan",
    "running": "green",
    "stopping": "magenta",
    "stopped": "dim",
    "finished": "blue",
    "failed": "red",
}
_SIGNS = {
    "pending": "○",
    "reserved": "◔",
    "starting": "◑",
    "running": "▶",
    "stopping": "◐",
    "stopped": "■",
    "finished": "✔",
    "failed": "✘",
}
_BAR_CELLS = 24
_MOST_BARS = 24


def draw(board: boards.Board, options: boards.BoardOptions, *, now: float | None = None) -> RenderableType:
    """Counts, queues and workloads, one below the other."""
    at = time.time() if now is None else now
    selected = board.selected(options)
    visible = selected[options.first : options.first + options.most]
    hidden = len(selected) - len(visible)
    note = Text(f"{hidden:,} more" if hidden else "", style="dim")
    return Group(_summary(board), Text(), _queues(board), Text(), workload_table(visible, at), note)


def _summary(board: boards.Board) -> Text:
    text = Text()
    for state, count in board.counts().items():
        if count:
            text.append(f"{_SIGNS[state]} {count:,} {state}   ", style=_COLORS[state])
    return text if text.plain else Text("no workloads", style="dim")


def _queues(board: boards.Board) -> Table:
    table = Table.grid(padding=(0, 2))
    bars = list(board.bars())
    last = ""
    for queue, cohort, _flavor, resource, used, own, most in bars[:_MOST_BARS]:
        name, last = ("" if queue == last else queue), queue
        borrowed = used - own
        amounts = f"{boards.amount_text(resource, used)} of {boards.amount_text(resource, most)}"
        if borrowed > 0 and cohort:
            amounts += f", {boards.amount_text(resource, borrowed)} borrowed from {cohort}"
        table.add_row(Text(name, style="bold"), resource.rpartition("/")[2], _bar(used, own, most), amounts)
    if len(bars) > _MOST_BARS:
        table.add_row(Text(f"{len(bars) - _MOST_BARS} more", style="dim"))
    return table


def _bar(used: float, own: float, most: float) -> Text:
    """Green within the queue's own quota, yellow for what it borrows."""
    whole = max(most, used, 1e-9)
    own_cells = round(_BAR_CELLS * min(used, own) / whole)
    used_cells = round(_BAR_CELLS * used / whole)
    text = Text("█" * own_cells, style="green")
    text.append("▒" * (used_cells - own_cells), style="yellow")
    text.append("░" * (_BAR_CELLS - used_cells), style="dim")
    return text


def workload_table(visible: Iterable[rows.Row], at: float) -> Table:
    table = Table.grid(padding=(0, 2))
    for row in visible:
        state = row[boards.FIELD["state"]]
        table.add_row(
            Text(f"{_SIGNS[state]} {state}", style=_COLORS[state]),
            Text(boards.job_name(row), style="bold"),
            f"{row[boards.FIELD['namespace']]}/{row[boards.FIELD['queue']]}",
            str(row[boards.FIELD["priorityClass"]] or row[boards.FIELD["priority"]]),
            boards.requests_text(row[boards.FIELD["requests"]]),
            boards.duration_text(boards.elapsed_seconds(row, at)),
            f"on {row[boards.FIELD['cluster']]}"
            if row[boards.FIELD["cluster"]]
            else Text(row[boards.FIELD["message"]], style="dim"),
        )
    for column in table.columns[:-1]:
        column.no_wrap = True
    if table.columns:
        table.columns[-1].no_wrap = True
        table.columns[-1].overflow = "ellipsis"
    return table
