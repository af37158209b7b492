"""`pprofBindAddress` serves stacks and profiles of the process."""

import aiohttp
import click
import pytest
from tests.e2e.controller_process import free_port

from pykueue.app.profiling import ProfilingServer


@pytest.fixture
async def address():
    address = f"127.0.0.1:{free_port()}"
    server = ProfilingServer(address)
    await server.start()
    yield f"http://{address}/debug/pprof/"
    await server.stop()


async def get(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_stacks_name_threads_and_tasks(address):
    status, text = await get(f"{address}goroutine")
    assert status == 200
    assert "thread MainThread" in text
    assert "task " in text
    assert "test_stacks_name_threads_and_tasks" in text


async def test_a_profile_is_folded_stacks_with_counts(address):
    status, text = await get(f"{address}profile?seconds=0.1")
    assert status == 200
    stack, count = text.splitlines()[0].rsplit(" ", 1)
    assert int(count) > 0
    assert ";" in stack


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1e9", "nan"])
async def test_a_bad_duration_is_refused(address, seconds):
    status, text = await get(f"{address}profile?seconds={seconds}")
    assert (status, text.startswith(f"seconds={seconds} is not a number")) == (400, True)


async def test_a_bad_address_is_one_line():
    with pytest.raises(click.ClickException, match="set pprofBindAddress"):
        await ProfilingServer("nowhere").start()
