"""WorkloadPriorityClass: a named priority for queueing alone, apart from pod priority."""

from typing import Annotated

from pykueue.api.meta import Int32, ObjectMeta
from pykueue.api.structural import Part, about


class WorkloadPriorityClass(Part):
    """A name for a priority that orders workloads without changing the priority of their pods."""

    metadata: ObjectMeta
    value: Annotated[Int32, about("The priority; higher goes first.")]
    description: Annotated[str | None, about("When to use this class.", max_length=2048)] = None
