"""`pykueue top`: queues and workloads in a terminal, live, of any cluster with Kueue's kinds."""

import asyncio
import contextlib
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.dashboard import board as boards

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pykueue.api.scheme import Resource
    from pykueue.dashboard.board import Board, BoardOptions
    from pykueue.kube.client import Client

_KEYS = "q quit  a all  p pending  r running  f finished  / filter  s sort  j k"
_STATES_OF_KEYS = {"a": "all", "p": "pending", "r": "running", "f": "finished"}
_FRAME_SECONDS = 0.25
_WIDTH_WITHOUT_TERMINAL = 200
_FIXED_LINES = 7
"""Counts, headings, empty lines and the two lines at the bottom."""
_ESCAPE, _ENTER, _DELETE = "\x1b", ("\r", "\n"), ("\x7f", "\b")
_ARROWS = {"\x1b[A": "k", "\x1b[B": "j"}
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
"""An arrow or another special key is a sequence that begins with Escape."""


@click.command()
@click.option("--once", is_flag=True, help="Print the board once and exit. Default: if there is no terminal.")
@click.option("--filter", "text", default="", help="Show only workloads with these words in a name or queue.")
@click.option(
    "--state",
    "states",
    type=click.Choice(boards.FILTERS),
    default="all",
    show_default=True,
    help="Show only workloads in this state.",
)
@click.option(
    "--sort", type=click.Choice(boards.SORTS), default="state", show_default=True, help="The order of the workloads."
)
@options.with_all_namespaces
@outputs.with_report_output
@with_cluster
def top(
    *, cluster: ClusterAccess, once: bool, text: str, states: str, sort: str, all_namespaces: bool, output: str
) -> None:
    """Show queues and workloads, live.

    Without -n, workloads of all namespaces are shown, or of your own if you may not list all.
    """
    selection = boards.BoardOptions(states=states, text=text, sort=sort)
    is_live = not once and output != "json" and sys.stdout.isatty() and sys.stdin.isatty()

    async def run(client: "Client", namespace: str) -> None:
        scope = "" if all_namespaces or not cluster.namespace else cluster.namespace
        scope = await _readable_namespace(client, scope, namespace)
        if is_live:
            await _LiveBoard(client, scope, selection).run()
        else:
            await _print_once(client, scope, selection, output)

    cluster.run(run)


async def _readable_namespace(client: "Client", namespace: str, own: str) -> str:
    """All namespaces if they may be listed, else that of the kubeconfig."""
    from pykueue.api.errors import ApiError
    from pykueue.api.resources import WORKLOAD
    from pykueue.kube.client import ListOptions

    try:
        await client.list(WORKLOAD, namespace, ListOptions(limit=1))
    except ApiError as error:
        if error.code != 403 or namespace:
            raise
        return own
    return namespace


async def _kinds(client: "Client", namespace: str) -> "list[tuple[Resource, str, str]]":
    """The kinds of the board, each with its namespace and field selector.

    ClusterQueues and failed pods are left out if the user may not list them.
    """
    from pykueue.api.resources import CLUSTER_QUEUE, POD, WORKLOAD

    optional = [(CLUSTER_QUEUE, "", ""), (POD, namespace, boards.FAILED_PODS)]
    return [(WORKLOAD, namespace, ""), *[kind for kind in optional if await _may_list(client, *kind)]]


async def _may_list(client: "Client", resource: "Resource", namespace: str, selector: str) -> bool:
    from pykueue.api.errors import ApiError
    from pykueue.kube.client import ListOptions

    try:
        await client.list(resource, namespace, ListOptions(limit=1, field_selector=selector))
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return True


async def _print_once(client: "Client", namespace: str, selection: "BoardOptions", output: str) -> None:
    from rich.console import Console

    from pykueue.dashboard import drawing
    from pykueue.dashboard.rows import QUOTA_FIELDS, WORKLOAD_FIELDS
    from pykueue.kube.client import ListOptions

    board = boards.Board()
    for resource, scope, selector in await _kinds(client, namespace):
        listed = await client.list(resource, scope, ListOptions(field_selector=selector))
        board.replace(resource.plural, listed.items)
    if output == "json":
        workloads = [dict(zip(WORKLOAD_FIELDS, row, strict=True)) for row in board.selected(selection)]
        queues = [
            queue | {"quota": [dict(zip(QUOTA_FIELDS, row, strict=True)) for row in queue["quota"]]}
            for queue in board.queues.values()
        ]
        outputs.show_json({"clusterQueues": queues, "workloads": workloads})
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)
    whole = replace(selection, most=len(board.workloads), most_bars=board.bar_count(), width=console.width)
    console.print(drawing.draw(board, whole))


class _LiveBoard:
    def __init__(self, client: "Client", namespace: str, selection: "BoardOptions") -> None:
        self._client = client
        self._namespace = namespace
        self._board: Board = boards.Board()
        self._selection = selection
        self._is_typing = False
        self._visible_rows = 1
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        following = [asyncio.create_task(work) for work in await self._followers()]
        try:
            with _keys(self._press), Live(console=console, screen=True, auto_refresh=False) as live:
                while not self._stopping.is_set():
                    live.update(self._render(console), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._stopping.wait(), _FRAME_SECONDS)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    async def _followers(self) -> list[Coroutine[Any, Any, None]]:
        from pykueue.api.scheme import Object
        from pykueue.kube.informer import Reflector

        def reflector(resource: "Resource", namespace: str, selector: str) -> Reflector:
            def replace_all(items: list[Object], _version: str) -> None:
                self._board.replace(resource.plural, items)

            def change(event_type: str, obj: Object) -> None:
                self._board.change(resource.plural, event_type, obj)

            return Reflector(
                self._client,
                resource,
                on_list=replace_all,
                on_event=change,
                namespace=namespace,
                field_selector=selector,
            )

        return [reflector(*kind).run() for kind in await _kinds(self._client, self._namespace)]

    def _render(self, console: "Console") -> "RenderableType":
        from rich.layout import Layout
        from rich.text import Text

        from pykueue.dashboard import drawing

        lines = console.height - _FIXED_LINES
        bars = min(self._board.bar_count(), max(3, lines // 2))
        most = max(1, lines - bars - (bars < self._board.bar_count()))
        self._visible_rows = most
        selection = replace(self._selection, most=most, most_bars=bars, width=console.width)
        state = f"{selection.states}, by {selection.sort}" + (
            f", filter: {selection.text}" if selection.text or self._is_typing else ""
        )
        footer = Text(
            f"{state}{'█' if self._is_typing else ''}\n{_KEYS}", style="dim", no_wrap=True, overflow="ellipsis"
        )
        layout = Layout()
        layout.split_column(Layout(drawing.draw(self._board, selection)), Layout(footer, size=2))
        return layout

    def _press(self, key: str) -> None:
        selection = self._selection
        if self._is_typing:
            self._type(key)
            return
        key = _ARROWS.get(key, key)
        if key in ("q", _ESCAPE):
            self._stopping.set()
        elif key in _STATES_OF_KEYS:
            self._selection = replace(selection, states=_STATES_OF_KEYS[key], first=0)
        elif key == "s":
            self._selection = replace(
                selection, sort=boards.SORTS[(boards.SORTS.index(selection.sort) + 1) % len(boards.SORTS)]
            )
        elif key == "/":
            self._is_typing = True
            self._selection = replace(selection, text="", first=0)
        elif key in ("j", "k"):
            last = max(0, len(self._board.selected(selection)) - self._visible_rows)
            self._selection = replace(selection, first=min(last, max(0, selection.first + (5 if key == "j" else -5))))

    def _type(self, key: str) -> None:
        if key in (*_ENTER, _ESCAPE):
            self._is_typing = False
        elif key in _DELETE:
            self._selection = replace(self._selection, text=self._selection.text[:-1])
        elif key.isprintable():
            self._selection = replace(self._selection, text=self._selection.text + key)


@contextlib.contextmanager
def _keys(press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` with each key, without waiting for Enter, until the end of the block."""
    import os
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in _KEY.findall(os.read(descriptor, 64).decode(errors="ignore")):
            press(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
