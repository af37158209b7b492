"""Draws a `Board` with rich; called by `pykueue top` and by the live view of `pykueue demo`."""

import time
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pykueue.api import escaping
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
_NARROW = 110
_LONGEST = {"job": 32, "queue": 24, "requests": 28}
_STATE_AND_TIME_CELLS = 28
_LONGEST_IF_NARROW = {"job": 24, "queue": 16, "requests": 20}


def draw(board: boards.Board, options: boards.BoardOptions, *, now: float | None = None) -> RenderableType:
    """Counts, queues and workloads, one below the other."""
    at = time.time() if now is None else now
    selected = board.selected(options)
    visible = selected[options.first : options.first + options.most]
    hidden = len(selected) - len(visible)
    note = Text(f"{hidden:,} more" if hidden else "", style="dim")
    table = workload_table(visible, at, options.width)
    return Group(_summary(board), Text(), _queues(board, options), Text(), table, note)


def _summary(board: boards.Board) -> Text:
    text = Text()
    for state, count in board.counts().items():
        if count:
            text.append(f"{_SIGNS[state]} {count:,} {state}   ", style=_COLORS[state])
    return text if text.plain else Text("no workloads", style="dim")


def _queues(board: boards.Board, options: boards.BoardOptions) -> Table:
    table = Table.grid(padding=(0, 2))
    last, count = "", 0
    for queue, cohort, _flavor, resource, used, own, most in board.bars(options.most_bars):
        name, last = ("" if queue == last else queue), queue
        borrowed = used - own
        amounts = f"{boards.amount_text(resource, used)} of {boards.amount_text(resource, most)}"
        if borrowed > 0 and cohort:
            amounts += f", {boards.amount_text(resource, borrowed)} borrowed from {cohort}"
        table.add_row(Text(name, style="bold"), resource.rpartition("/")[2], _bar(used, own, most), amounts)
        count += 1
    if board.bar_count() > count:
        table.add_row(Text(f"{board.bar_count() - count} more", style="dim"))
    for column in table.columns:
        column.no_wrap = True
    return table


def _bar(used: float, own: float, most: float) -> Text:
    """Green within the own quota, yellow for what is borrowed. It ends at twice the own quota."""
    whole = max(min(most, max(2 * own, used)), used, 1e-9)
    own_cells = round(_BAR_CELLS * min(used, own) / whole)
    used_cells = round(_BAR_CELLS * used / whole)
    text = Text("█" * own_cells, style="green")
    text.append("▒" * (used_cells - own_cells), style="yellow")
    text.append("░" * (_BAR_CELLS - used_cells), style="dim")
    return text


def workload_table(visible: Iterable[rows.Row], at: float, width: int) -> Table:
    """Reasons are long and have the room that the other columns leave."""
    is_narrow = width < _NARROW
    longest = _LONGEST_IF_NARROW if is_narrow else _LONGEST
    if is_narrow:  # state and time are never cut
        share = max(24, width - _STATE_AND_TIME_CELLS) // 3
        longest = {name: min(cells, share) for name, cells in longest.items()}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", expand=not is_narrow, width=width)
    table.add_column("state", no_wrap=True)
    for name in ("job", "queue"):
        table.add_column(name, no_wrap=True, max_width=longest[name])
    if not is_narrow:
        table.add_column("priority", no_wrap=True)
    table.add_column("requests", no_wrap=True, max_width=longest["requests"])
    table.add_column("time", no_wrap=True, justify="right")
    if not is_narrow:
        table.add_column("reason", no_wrap=True, ratio=1, style="dim")
    for row in visible:
        table.add_row(*_cells(row, at, is_narrow=is_narrow))
    table.show_header = bool(table.row_count)
    return table


def _cells(row: rows.Row, at: float, *, is_narrow: bool) -> list[Text]:
    state = row[boards.FIELD["state"]]
    priority = str(row[boards.FIELD["priorityClass"]] or row[boards.FIELD["priority"]])
    reason = Text(escaping.one_line(boards.reason_text(row)))
    return [
        Text(f"{_SIGNS[state]} {state}", style=_COLORS[state]),
        Text(escaping.one_line(boards.job_name(row)), style="bold"),
        Text(f"{row[boards.FIELD['namespace']]}/{row[boards.FIELD['queue']]}"),
        *(() if is_narrow else (Text(escaping.one_line(priority)),)),
        Text(boards.requests_text(row[boards.FIELD["requests"]])),
        Text(boards.duration_text(boards.elapsed_seconds(row, at))),
        *(() if is_narrow else (reason,)),
    ]
