"""A demo in a terminal: the board of `pykueue top` with the step and the last messages."""

import dataclasses

from rich import get_console
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from pykueue.cli.demo.scenario import Scenario
from pykueue.cli.demo.state import DemoState
from pykueue.dashboard import board, drawing

_LAST_MESSAGES = 8
_BORDER_CELLS = 4
_BY_NAME = board.BoardOptions(sort="name")


class LiveView:
    def __init__(self, console: Console | None = None) -> None:
        self._state = DemoState()
        self._title = ""
        self._text = ""
        self._console = console or get_console()
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8)

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
        width = self._console.width - _BORDER_CELLS
        drawn = drawing.draw(self._state.board, dataclasses.replace(_BY_NAME, width=width))
        text = Text(self._text, style="bold")
        return Panel(Group(text, Text(), drawn, messages), title=self._title, border_style="blue")
