"""Plays a story on a stage, step by step, before a view."""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from pykueue.cli.demo.board import Board
from pykueue.cli.demo.stage import Stage, open_stage
from pykueue.cli.demo.story import Step, Story


class View(Protocol):
    def opened(self, story: Story, board: Board) -> None: ...

    def said(self, words: str) -> None: ...

    def happened(self) -> None:
        """The board has changed."""
        ...

    def closed(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    jobs: int
    preemptions: int
    seconds: float


async def play(story: Story, view: View, *, pace: float = 1.0) -> Summary:
    """`pace` scales the time for looking; 0 goes on as soon as a step has had its effect."""
    begun = time.monotonic()
    async with open_stage(story) as stage:
        view.opened(story, stage.board)
        try:
            for step in story.steps:
                view.said(step.say)
                await _perform(story, stage, step, view)
                await asyncio.sleep(step.hold_seconds * pace)
                view.happened()
        finally:
            view.closed()
        seconds = time.monotonic() - begun
        return Summary(jobs=len(stage.board.ran), preemptions=stage.board.preemptions, seconds=seconds)


async def _perform(story: Story, stage: Stage, step: Step, view: View) -> None:
    for file in step.apply:
        for obj in story.objects(file):
            await stage.apply(obj)
    for file in step.delete:
        for obj in story.objects(file):
            await stage.delete(obj)

    def is_reached(board: Board) -> bool:
        view.happened()
        return board.shows(step.until)

    await stage.until(is_reached)
