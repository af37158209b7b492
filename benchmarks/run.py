"""Run the benchmarks: `python benchmarks/run.py [--small] [PART…]`, by default all parts.

A part is a file in this folder with a `main()`; the other files are what the parts share, and
`page.py`, which needs Chromium and is run by itself. SMALL of a part has the constants of its small
version; all small versions together take two minutes.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent
NO_PARTS = ("run", "loads", "chart", "page")


def parts() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path.stem not in NO_PARTS}


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(name: str, path: Path, *, is_small: bool) -> None:
    print(f"== {name}", flush=True)
    start = time.perf_counter()
    module = load(name, path)
    if is_small:
        for constant, value in getattr(module, "SMALL", {}).items():
            setattr(module, constant, value)
    module.main()
    print(f"   ({time.perf_counter() - start:.1f} s)\n", flush=True)


def main() -> None:
    available = parts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of: {', '.join(available)}")
    parser.add_argument("--small", action="store_true", help="the small version of each part")
    arguments = parser.parse_args()
    chosen = arguments.parts or list(available)
    if unknown := [name for name in chosen if name not in available]:
        parser.error(f"no such part: {', '.join(unknown)}; there are: {', '.join(available)}")
    for name in chosen:
        run(name, available[name], is_small=arguments.small)


if __name__ == "__main__":
    main()
