"""`pykueue down`: stop `pykueue up` and end the jobs that run on this machine."""

import asyncio
import os
import signal
import socket

import click

from pykueue.cli import output as outputs
from pykueue.cli.data_directory import DataDirectory, with_data_dir

_STOP_SECONDS = 60.0


@click.command()
@outputs.with_report_output
@with_data_dir
def down(*, output: str, directory: DataDirectory) -> None:
    """Stop `pykueue up` and end its running jobs.

    It also ends jobs that an earlier `pykueue up` left running. The data stay:
    the next `pykueue up` shows these jobs as they ended.
    """
    from pykueue.app import running_jobs

    was_running = asyncio.run(_stop_server(directory))
    pods = running_jobs.find(directory.path)
    asyncio.run(running_jobs.stop(pods))
    lines = [f"pykueue with data in {directory.path} is stopped."] if was_running else []
    if pods:
        lines += [f"{running_jobs.count(pods, ('was ended', 'were ended'))}:", *(f"  {pod.name}" for pod in pods)]
    lines = lines or [f"Nothing runs with data in {directory.path}."]
    report = {"dataDirectory": str(directory.path), "wasRunning": was_running}
    outputs.show_report(report | {"endedPods": [pod.name for pod in pods]}, lines, output)


async def _stop_server(directory: DataDirectory) -> bool:
    """Stop the process that uses the directory; return whether there was one."""
    from pykueue.app import running_jobs
    from pykueue.cluster.runtimes.linux_processes import ProcessIdentity

    holder = directory.holder()
    if holder is None:
        return False
    if holder.host != socket.gethostname():
        raise click.ClickException(
            f"{directory.path} is in use by a process on {holder.host}. Run `pykueue down` there."
        )
    try:
        process = ProcessIdentity.of(holder.pid)
        running_jobs.announce_end(directory.path, holder.pid)
        os.kill(holder.pid, signal.SIGTERM)
        await asyncio.wait_for(process.ended(), _STOP_SECONDS)
    except PermissionError:
        raise click.ClickException(
            f"Process {holder.pid} belongs to another user. Run `pykueue down` as that user."
        ) from None
    except TimeoutError:
        raise click.ClickException(f"Process {holder.pid} has not stopped within {_STOP_SECONDS:g} s.") from None
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended in the meantime
    return True
