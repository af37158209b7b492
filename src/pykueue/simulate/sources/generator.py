"""Synthetic jobs: arrivals, sizes and run times are drawn from distributions with a seed.

    jobs=1000 rate=60/h sizes=1*6,2*2,8 run=lognormal(1h,1.2) priority=0*9,100 seed=7

`sizes`, `priority`, `pods` and `queues` are lists of values, each with an optional weight after
`*`. `run` is `fixed(1h)`, `exponential(1h)`, `lognormal(MEDIAN,SIGMA)`, `uniform(1m,2h)` or
`pareto(1m,ALPHA)`. `daily=0.5` makes the rate swing by a half over a day.
"""

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence

from pykueue.api.times import SECOND_NS
from pykueue.simulate.sources.rows import GPU, JobRow, Place, SourceError

_DEFAULTS = {
    "jobs": "1000",
    "rate": "60/h",
    "sizes": "1*6,2*2,4,8",
    "run": "lognormal(30m,1.2)",
    "priority": "0",
    "pods": "1",
    "queues": "",
    "resource": GPU,
    "cpu": "",
    "startup": "0",
    "daily": "0",
    "seed": "0",
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_RUN_SECONDS = 30 * 86400
_WHERE = Place("--generate")


def read(text: str, queues: Sequence[str]) -> Iterator[JobRow]:
    """The jobs of a description. Without `queues` in it, they go to all LocalQueues alike."""
    settings = _settings(text)
    draw = random.Random(_WHERE.integer(settings["seed"], "seed"))  # noqa: S311 - a load, not a secret
    rate = _rate(settings["rate"])
    daily = _number(settings["daily"], "daily", least=0, most=1)
    run_seconds = _distribution(settings["run"], draw)
    choices = {name: _weighted(settings[name], name) for name in ("sizes", "priority", "pods")}
    sizes = [_WHERE.quantity(size, "sizes") for size in choices["sizes"][0]], choices["sizes"][1]
    pods = [_WHERE.count(count, "pods") for count in choices["pods"][0]], choices["pods"][1]
    priorities = [_WHERE.integer(priority, "priority") for priority in choices["priority"][0]], choices["priority"][1]
    cpu = _WHERE.quantity(settings["cpu"], "cpu") if settings["cpu"] else ""
    names = _weighted(settings["queues"], "queues") if settings["queues"] else (list(queues), [1.0] * len(queues))
    if not names[0]:
        raise SourceError("there is no LocalQueue", file="--generate", remedy="Add a LocalQueue to the files of -f.")
    startup_ns = _WHERE.duration_ns(settings["startup"], "startup")
    at = 0.0
    for number in range(_WHERE.integer(settings["jobs"], "jobs")):
        at += draw.expovariate(rate * max(0.05, 1 + daily * math.sin(2 * math.pi * at / 86400)))
        requests = {settings["resource"]: draw.choices(*sizes)[0]}
        if cpu:
            requests["cpu"] = cpu
        run_ns = round(min(run_seconds(), _LONGEST_RUN_SECONDS)) * SECOND_NS
        yield JobRow(
            submit_ns=int(at) * SECOND_NS,
            queue=str(draw.choices(*names)[0]),
            requests=requests,
            run_ns=run_ns,
            pods=draw.choices(*pods)[0],
            priority=draw.choices(*priorities)[0],
            name=f"job-{number}",
            startup_ns=startup_ns,
        )


def _settings(text: str) -> dict[str, str]:
    settings = dict(_DEFAULTS)
    for word in text.split():
        name, separator, value = word.partition("=")
        if not separator or name not in settings:
            remedy = f"Settings are {', '.join(settings)}, each as NAME=VALUE."
            raise SourceError(f"{word!r} is not a setting", file="--generate", remedy=remedy)
        settings[name] = value
    return settings


def _rate(text: str) -> float:
    """Jobs a second, from `60/h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/([smhd])", text)
    if match is None or not float(match[1]):
        raise _WHERE.error(f"{text!r} is not a rate", "rate", "Write jobs per time, such as 60/h or 1000/d.")
    return float(match[1]) / _UNITS[match[2]]


def _weighted(text: str, name: str) -> tuple[list[str], list[float]]:
    values, weights = [], []
    for part in text.split(","):
        value, _, weight = part.partition("*")
        weights.append(_number(weight or "1", name, least=0, most=1e9, what="a weight"))
        values.append(value)
    if not sum(weights):
        raise _WHERE.error("all weights are 0", name, "Write 1*6,2*2,8.")
    return values, weights


def _number(text: str, name: str, *, least: float, most: float, what: str = "a number") -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise _WHERE.error(f"{text!r} is not {what}", name, f"Write a number from {least:g} to {most:g}.")
    return number


def _distribution(text: str, draw: random.Random) -> Callable[[], float]:
    match = re.fullmatch(r"(\w+)\(([^)]*)\)", text)
    words = [] if match is None else [word.strip() for word in match[2].split(",")]
    name = "" if match is None else match[1]
    expected = {"fixed": 1, "exponential": 1, "lognormal": 2, "uniform": 2, "pareto": 2}
    if expected.get(name) != len(words):
        remedy = "Write fixed(1h), exponential(1h), lognormal(1h,1.2), uniform(1m,2h) or pareto(1m,1.5)."
        raise _WHERE.error(f"{text!r} is not a distribution", "run", remedy)
    first = _WHERE.duration_ns(words[0], "run") / SECOND_NS
    if not first and name != "fixed":
        raise _WHERE.error(f"{text!r} is not a distribution", "run", "Write more than 0 seconds.")
    if name == "fixed":
        return lambda: first
    if name == "exponential":
        return lambda: draw.expovariate(1 / first)
    if name == "uniform":
        last = _WHERE.duration_ns(words[1], "run") / SECOND_NS
        return lambda: draw.uniform(first, last)
    second = _number(words[1], "run", least=0.01, most=100)
    if name == "lognormal":
        return lambda: draw.lognormvariate(math.log(first), second)
    return lambda: first * draw.paretovariate(second)
