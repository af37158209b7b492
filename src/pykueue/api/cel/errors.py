"""What goes wrong with an expression. The messages are those of cel-go and Kubernetes."""


class EvaluationError(Exception):
    """The expression could not be evaluated; the message is that of CEL."""

    cost = 0
    """What the evaluation cost until it failed."""


class CompilationError(EvaluationError):
    """The text is not CEL, or its types do not fit; the message says where."""


class CelError(EvaluationError):
    """An error value of CEL: `&&`, `||`, `all` and `exists` may absorb it."""


class CostLimitError(EvaluationError):
    """The evaluation was stopped. Nothing absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def report(text: str, faults: list[tuple[int, str]]) -> str:
    """The faults with their lines, as cel-go prints them."""
    return "\n".join(_located(text, position, message) for position, message in sorted(faults))


def _located(text: str, position: int, message: str) -> str:
    start = text.rfind("\n", 0, position) + 1
    line = text.count("\n", 0, position) + 1
    column = position - start
    source = text[start:].partition("\n")[0].replace("\t", " ")
    return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {source}\n | {'.' * column}^"
