"""Step functions over time, such as used GPUs, averaged in a bounded number of intervals."""

from pykueue.api.times import SECOND_NS

MOST_INTERVALS = 600


class Timeline:
    """Many step functions with one time axis.

    The intervals start with a second and double when there are too many, so the end of the run
    need not be known.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self.start_ns = start_ns
        self.width_ns = SECOND_NS
        self.series: dict[tuple[str, ...], Series] = {}

    def add(self, key: tuple[str, ...], amount: int, at_ns: int) -> int:
        """Change a function by an amount; return its new level."""
        series = self.series.get(key)
        if series is None:
            series = self.series[key] = Series(self.start_ns)
        if at_ns > series.since_ns:
            self.fill(series, at_ns)
        series.level += amount
        return series.level

    def fill(self, series: "Series", until_ns: int) -> None:
        """Add the level from the last change until now to the intervals."""
        while until_ns - self.start_ns > MOST_INTERVALS * self.width_ns:
            self._double()
        level, at_ns = series.level, series.since_ns
        series.since_ns = until_ns
        if not level:
            return
        series.total += level * (until_ns - at_ns)
        areas, width, start = series.areas, self.width_ns, self.start_ns
        last = (until_ns - start - 1) // width
        if len(areas) <= last:
            areas.extend([0] * (last + 1 - len(areas)))
        if (at_ns - start) // width == last:
            areas[last] += level * (until_ns - at_ns)
            return
        while at_ns < until_ns:
            index = (at_ns - start) // width
            end_ns = min(until_ns, start + (index + 1) * width)
            areas[index] += level * (end_ns - at_ns)
            at_ns = end_ns

    def finish(self, at_ns: int) -> None:
        for series in self.series.values():
            if at_ns > series.since_ns:
                self.fill(series, at_ns)

    def averages(self, key: tuple[str, ...], count: int) -> list[float]:
        series = self.series.get(key)
        areas = [] if series is None else series.areas
        return [(areas[index] if index < len(areas) else 0) / self.width_ns for index in range(count)]

    def total(self, key: tuple[str, ...]) -> int:
        """The integral over time, in units times nanoseconds."""
        series = self.series.get(key)
        return 0 if series is None else series.total

    def count(self, until_ns: int) -> int:
        """How many intervals there are until a time."""
        return max(1, -(-(until_ns - self.start_ns) // self.width_ns))

    def _double(self) -> None:
        self.width_ns *= 2
        for series in self.series.values():
            areas = series.areas
            series.areas = [sum(areas[index : index + 2]) for index in range(0, len(areas), 2)]


class Series:
    __slots__ = ("areas", "level", "since_ns", "total")

    def __init__(self, start_ns: int) -> None:
        self.level = 0
        self.since_ns = start_ns
        self.areas: list[int] = []
        self.total = 0
