"""Virtual time, in two ways.

`engine_driver` runs the engine alone, for a million jobs: `sources` reads jobs, `planning` runs
them and their variants, `report` tells what happened, and `notebook` offers all of it to Python
programs as `pykueue.simulate.plan`, `run`, `svg` and `html`. The modules of this package besides
these run the whole system: one process, one event loop, and every order and fault drawn from a
seed.

Invariant (tests/simulation/test_determinism.py): one seed gives exactly one run.
"""

from typing import Any

__all__ = ["html", "plan", "run", "svg"]


def __getattr__(name: str) -> Any:
    """Import the notebook interface when it is used: the whole system does not need it."""
    if name in __all__:
        from pykueue.simulate import notebook

        return getattr(notebook, name)
    raise AttributeError(name)
