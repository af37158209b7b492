"""The jobs of a simulation as columns, because a million objects would not fit into memory.

Jobs with the same queue, priority and requests share a template: an engine value of a Workload
without a name. `Simulation` makes the value of one job when it arrives and drops it when it ends.
"""

from array import array
from collections.abc import Iterable

from pykueue.engine import values

UNKNOWN_NS = -1
"""A run time that nobody knows: the job never ends by itself."""


class JobTable:
    def __init__(self) -> None:
        self.templates: list[values.Workload] = []
        self.limits_ns: list[int | None] = []
        """`spec.maximumExecutionTimeSeconds` of each template."""
        self.template = array("l")
        self.submit_ns = array("q")
        self.run_ns = array("q")
        self.names: list[str | None] = []
        self.startup_ns: dict[int, int] = {}
        """How long pods need to become ready, for jobs in which that is not 0."""
        self.owner = array("l")
        """The position of the job's user in `owners`."""
        self.owners: list[str] = [""]
        """The users, if the source of the jobs names them."""
        self._owner_index = {"": 0}
        self._template_of: dict[tuple[object, ...], int] = {}

    def __len__(self) -> int:
        return len(self.template)

    def add_adopted(self, workload: values.Workload) -> int:
        """The number of a template of its own: it has an admission, which no other job may get."""
        self.templates.append(workload)
        self.limits_ns.append(None)
        return len(self.templates) - 1

    def add_template(self, prototype: values.Workload, *, limit_ns: int | None = None) -> int:
        """The number of the template; equal prototypes share one."""
        assert prototype.admission is None
        key = (
            prototype.local_queue,
            prototype.priority,
            prototype.scheduling_hash,
            limit_ns,
            prototype if not prototype.scheduling_hash else None,
        )
        number = self._template_of.get(key) if prototype.scheduling_hash else None
        if number is None:
            number = len(self.templates)
            self._template_of[key] = number
            self.templates.append(prototype)
            self.limits_ns.append(limit_ns)
        return number

    def add(
        self,
        template: int,
        *,
        submit_ns: int,
        run_ns: int | None,
        name: str | None = None,
        startup_ns: int = 0,
        owner: str = "",
    ) -> int:
        """Add a job and return its number. Without `run_ns` the job never ends by itself."""
        number = len(self.template)
        self.template.append(template)
        self.submit_ns.append(submit_ns)
        self.run_ns.append(UNKNOWN_NS if run_ns is None else run_ns)
        self.names.append(name)
        if startup_ns:
            self.startup_ns[number] = startup_ns
        index = self._owner_index.setdefault(owner, len(self.owners))
        if index == len(self.owners):
            self.owners.append(owner)
        self.owner.append(index)
        return number

    def name(self, number: int) -> str:
        return self.names[number] or f"job-{number}"

    def key(self, number: int) -> values.WorkloadKey:
        return values.WorkloadKey(f"{self.templates[self.template[number]].namespace}/{self.name(number)}")

    def prototype(self, number: int) -> values.Workload:
        return self.templates[self.template[number]]

    def in_order_of_arrival(self) -> Iterable[int]:
        """The numbers of all jobs; equal times keep the order in which the jobs were added."""
        submit_ns = self.submit_ns
        numbers: Iterable[int] = range(len(submit_ns))
        if any(submit_ns[number] > submit_ns[number + 1] for number in range(len(submit_ns) - 1)):
            numbers = array("l", sorted(numbers, key=submit_ns.__getitem__))
        return numbers
