"""The play in a terminal: queues as bars, jobs moving between waiting and running, and who preempted whom."""

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pykueue.cli.demo.board import Bar, Board, Job
from pykueue.cli.demo.story import Story

_COLORS = {"waiting": "yellow", "starting": "cyan", "running": "green", "stopping": "magenta", "finished": "blue"}
_MARKS = {"waiting": "…", "starting": "↑", "running": "▶", "stopping": "↓", "finished": "✔"}
_BAR_CELLS = 24
_LAST_HAPPENINGS = 8


class LiveView:
    def __init__(self, console: Console | None = None) -> None:
        self._board = Board()
        self._title = ""
        self._words = ""
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=8)

    def opened(self, story: Story, board: Board) -> None:
        self._board, self._title = board, story.title
        self._live.start()

    def said(self, words: str) -> None:
        self._words = words

    def happened(self) -> None:
        """Drawn at the next refresh."""

    def closed(self) -> None:
        self._live.stop()

    def _picture(self) -> RenderableType:
        news = Text("\n".join(self._board.happenings[-_LAST_HAPPENINGS:]), style="dim")
        return Panel(
            Group(
                Text(self._words, style="bold"), Text(), _queues(self._board), Text(), _jobs(self._board), Text(), news
            ),
            title=self._title,
            border_style="blue",
        )


def _queues(board: Board) -> Table:
    table = Table.grid(padding=(0, 2))
    last = ""
    for bar in board.bars():
        name = bar.queue if bar.queue != last else ""
        last = bar.queue
        table.add_row(Text(name, style="bold"), bar.resource.rpartition("/")[2], _drawn(bar), _amounts(bar))
    return table


def _drawn(bar: Bar) -> Text:
    """Green within the queue's own quota, yellow where it borrows, of what it could have at most."""
    most = max(bar.most.nano, 1)
    own = round(_BAR_CELLS * min(bar.used.nano, bar.own.nano) / most)
    whole = round(_BAR_CELLS * bar.used.nano / most)
    drawn = Text("█" * own, style="green")
    drawn.append("█" * (whole - own), style="yellow")
    drawn.append("░" * (_BAR_CELLS - whole), style="dim")
    return drawn


def _amounts(bar: Bar) -> str:
    borrowed = bar.used - bar.own
    told = f"{bar.used} of {bar.most}"
    return f"{told}, {borrowed} borrowed from {bar.cohort}" if borrowed.nano > 0 and bar.cohort else told


def _jobs(board: Board) -> Table:
    table = Table.grid(padding=(0, 2))
    for job in sorted(board.jobs.values(), key=lambda job: (job.name, job.uid)):
        table.add_row(_state(job), Text(job.name, style="bold"), job.queue, job.priority, job.asks)
    return table


def _state(job: Job) -> Text:
    return Text(f"{_MARKS[job.state]} {job.state}", style=_COLORS[job.state])
