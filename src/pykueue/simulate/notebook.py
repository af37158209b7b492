"""Simulations in Python, for notebooks: files or objects in, tables and figures out.

from pykueue import simulate

plan = simulate.plan("queues.yaml", jobs="jobs.csv")
result = simulate.run(plan)
pandas.DataFrame(result.job_rows())
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pykueue.api.scheme import Object
from pykueue.simulate import planning, what_if
from pykueue.simulate.engine_driver.simulation import SimulationOptions
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.planning import Result, SimulationPlan
from pykueue.simulate.report import html_page
from pykueue.simulate.report import svg as drawing
from pykueue.simulate.sources import files, generator, manifests
from pykueue.simulate.sources.collector import JobCollector
from pykueue.simulate.sources.rows import JobRow

Queues = str | Path | Sequence[str | Path | Object]


def plan(
    queues: Queues,
    *,
    jobs: str | Path | Iterable[JobRow] = (),
    generate: str = "",
    configuration: Mapping[str, Any] | None = None,
    queue_map: Mapping[str, str] | None = None,
    options: SimulationOptions | None = None,
) -> SimulationPlan:
    """Queues (files or objects) and jobs (a file, rows or a description) as a plan."""
    parts = [queues] if isinstance(queues, str | Path) else list(queues)
    inputs = [
        ("queues", yaml.safe_dump(part).encode()) if isinstance(part, dict) else (str(part), Path(part).read_bytes())
        for part in parts
    ]
    loaded = manifests.load(inputs)
    settings = configuration or loaded.configuration or planning.default_configuration()
    collector = JobCollector(World.from_objects(loaded.objects, settings), queue_map or {})
    manifests.add_jobs(loaded.jobs, collector, run_ns=None)
    if isinstance(jobs, str | Path):
        files.add(Path(jobs), collector)
    else:
        collector.add_rows(jobs, "jobs")
    if generate:
        keys = [str(queue.key) for queue in collector.world.engine.view.local_queues()]
        collector.add_rows(generator.read(generate, keys), "generate")
    return SimulationPlan(
        objects=loaded.objects,
        jobs=collector.jobs,
        configuration=settings,
        options=options or SimulationOptions(),
        notes=list(collector.notes()),
    )


def run(ready_plan: SimulationPlan, *changes: str) -> Result:
    """Simulate; changes are settings such as `clusterqueue/team-a.nominalQuota[gpu]=8`."""
    if not changes:
        return planning.run(ready_plan)
    settings = tuple(setting for text in changes for setting in what_if.parse(text))
    return planning.run(ready_plan, what_if.Variant(name=", ".join(changes), settings=settings))


def svg(result: Result, what: str = "pending") -> str:
    """A figure over time: `pending` jobs by queue, or a `used` resource by flavor."""
    timeline = result.figures["timeline"]
    if what == "pending":
        series = list(timeline["pending"].items())
    else:
        resource = result.figures["resource"] if what == "used" else what
        series = [(row["flavor"], row["values"]) for row in timeline["used"] if row["resource"] == resource]
    return drawing.line_chart(series[: drawing.MOST_SERIES], interval_seconds=timeline["interval_seconds"])


def html(result: Result) -> str:
    """The whole report as one page."""
    return html_page.page(result.figures, result.outcomes)
