"""What expressions may cost. Imported without the interpreter.

The units are those of Kubernetes (`cost`), whose limits are ten times as high: a unit takes some
60 to 120 ns here, and half a microsecond at most. An evaluation holds up all other requests, so
one expression may take some ten milliseconds, and all of a policy some fifty.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykueue.api.cel.errors import CostLimitError, EvaluationError

if TYPE_CHECKING:
    from pykueue.api.cel.environment import Program

PER_CALL_LIMIT = 100_000
"""Of one expression. Kubernetes has 1,000,000."""
RUNTIME_BUDGET = 250_000
"""Of all rules of an object, or all expressions of a policy for a request and a parameter object.

Kubernetes has 10,000,000.
"""
SELECTOR_LIMIT = 20_000
"""Of a device selector for one device, because any user may write one."""
SELECTOR_BUDGET = 100_000
"""Of the selectors of a claim for all devices, beyond what each device adds."""
SELECTOR_BUDGET_PER_DEVICE = 1000


class BudgetError(EvaluationError):
    """The budget is spent. Nothing more is evaluated."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class Budget:
    """What several expressions may cost together."""

    __slots__ = ("limit", "remaining")

    def __init__(self, remaining: int = RUNTIME_BUDGET, limit: int = PER_CALL_LIMIT) -> None:
        self.remaining = remaining
        self.limit = limit

    @property
    def is_spent(self) -> bool:
        return self.remaining <= 0

    def run(self, program: "Program", variables: Mapping[str, Any]) -> Any:
        """Evaluate within the budget; EvaluationError in the words of Kubernetes."""
        if self.is_spent:
            raise BudgetError
        limit = min(self.limit, self.remaining)
        try:
            value, cost = program.evaluate(variables, limit)
        except EvaluationError as error:
            self.remaining -= min(error.cost, limit)
            if self.is_spent and isinstance(error, CostLimitError):
                raise BudgetError from None
            raise
        self.remaining -= cost
        return value
