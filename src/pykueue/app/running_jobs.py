"""Jobs of the process runtime that run although no `pykueue up` does.

`cli.up` counts them when it stops, and `cli.down` ends them.
"""

from collections.abc import Sequence
from pathlib import Path

from pykueue.cluster.runtimes import process
from pykueue.cluster.runtimes.process import RunningPod

CLUSTER_DIRECTORY = "room"
"""The directory of pods, volumes and logs, inside the data directory."""
GRACE_SECONDS = 30.0
"""Kubernetes' default for the time between SIGTERM and SIGKILL."""
_ENDED_BY_DOWN = "ended-by-down"


def find(data_dir: Path) -> list[RunningPod]:
    return process.running_pods(data_dir / CLUSTER_DIRECTORY)


def number(pods: Sequence[RunningPod]) -> int:
    """The number of jobs to which the pods belong."""
    return len({pod.owner for pod in pods})


def count(pods: Sequence[RunningPod], verbs: tuple[str, str]) -> str:
    """For example "2 jobs go on (3 pods)"; `verbs` has the singular and the plural."""
    jobs = number(pods)
    subject = f"1 job {verbs[0]}" if jobs == 1 else f"{jobs} jobs {verbs[1]}"
    return subject if len(pods) == jobs else f"{subject} ({len(pods)} pods)"


def announce_end(data_dir: Path, pid: int) -> None:
    """Let the `pykueue up` of this pid know that its jobs are ended after it has stopped."""
    (data_dir / _ENDED_BY_DOWN).write_text(str(pid))


def is_end_announced(data_dir: Path, pid: int) -> bool:
    path = data_dir / _ENDED_BY_DOWN
    try:
        announced = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return False
    return announced == str(pid)


async def stop(pods: Sequence[RunningPod]) -> None:
    from pykueue.cluster.runtimes import podman

    await podman.stop_containers([pod.uid for pod in pods if pod.has_podman], GRACE_SECONDS)
    await process.stop_pods(pods, GRACE_SECONDS)
