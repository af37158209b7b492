"""A demo in a terminal: queues as bars, jobs with their states, and the last messages."""

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pykueue.cli.demo.scenario import Scenario
from pykueue.cli.demo.state import DemoJob, DemoState, QuotaBar

_COLORS = {"waiting": "yellow", "starting": "cyan", "running": "green", "stopping": "magenta", "finished": "blue"}
_MARKS = {"waiting": "…", "starting": "↑", "running": "▶", "stopping": "↓", "finished": "✔"}
_BAR_CELLS = 24
_LAST_MESSAGES = 8


class LiveView:
    def __init__(self, console: Console | None = None) -> None:
        self._state = DemoState()
        self._title = ""
        self._text = ""
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=8)

    def start(self, scenario: Scenario, state: DemoState) -> None:
        self._state, self._title = state, scenario.title
        self._live.start()

    def show_step(self, text: str) -> None:
        self._text = text

    def refresh(self) -> None:
        """Nothing to do: the terminal is drawn eight times a second."""

    def stop(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        messages = Text("\n".join(self._state.messages[-_LAST_MESSAGES:]), style="dim")
        return Panel(
            Group(
                Text(self._text, style="bold"),
                Text(),
                _queues(self._state),
                Text(),
                _jobs(self._state),
                Text(),
                messages,
            ),
            title=self._title,
            border_style="blue",
        )


def _queues(state: DemoState) -> Table:
    table = Table.grid(padding=(0, 2))
    last = ""
    for bar in state.bars():
        name = bar.queue if bar.queue != last else ""
        last = bar.queue
        table.add_row(Text(name, style="bold"), bar.resource.rpartition("/")[2], _draw(bar), _amounts(bar))
    return table


def _draw(bar: QuotaBar) -> Text:
    """Green within the queue's own quota, yellow for what it borrows."""
    most = max(bar.most.nano, 1)
    own = round(_BAR_CELLS * min(bar.used.nano, bar.own.nano) / most)
    whole = round(_BAR_CELLS * bar.used.nano / most)
    text = Text("█" * own, style="green")
    text.append("█" * (whole - own), style="yellow")
    text.append("░" * (_BAR_CELLS - whole), style="dim")
    return text


def _amounts(bar: QuotaBar) -> str:
    borrowed = bar.used - bar.own
    usage = f"{bar.used} of {bar.most}"
    return f"{usage}, {borrowed} borrowed from {bar.cohort}" if borrowed.nano > 0 and bar.cohort else usage


def _jobs(state: DemoState) -> Table:
    table = Table.grid(padding=(0, 2))
    for job in sorted(state.jobs.values(), key=lambda job: (job.name, job.uid)):
        row = (_state(job), Text(job.name, style="bold"), job.queue, job.priority, job.requests)
        table.add_row(*row, f"on {job.cluster}" if job.cluster else "")
    return table


def _state(job: DemoJob) -> Text:
    return Text(f"{_MARKS[job.state]} {job.state}", style=_COLORS[job.state])
