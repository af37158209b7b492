"""The play as lines: for logs, pipes and screen readers."""

import time

import click

from pykueue.cli.demo.board import Board
from pykueue.cli.demo.story import Story


class PlainView:
    def __init__(self) -> None:
        self._board = Board()
        self._told = 0
        self._begun = time.monotonic()

    def opened(self, story: Story, board: Board) -> None:
        self._board = board
        self._begun = time.monotonic()
        click.echo(story.title)

    def said(self, words: str) -> None:
        self.happened()
        click.echo(f"\n{words}")

    def happened(self) -> None:
        for line in self._board.happenings[self._told :]:
            click.echo(f"  {time.monotonic() - self._begun:5.1f} s  {line}")
        self._told = len(self._board.happenings)

    def closed(self) -> None:
        self.happened()
