"""Run the benchmarks: `python benchmarks/run.py [PART…]`, by default all.

A part is a file in this folder with a `main()`; the other files are what the parts share.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
SHARED = ("run", "loads", "chart")


def parts() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path.stem not in SHARED}


def run(name: str, path: Path) -> None:
    print(f"== {name}", flush=True)
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    start = time.perf_counter()
    spec.loader.exec_module(module)
    module.main()
    print(f"   ({time.perf_counter() - start:.1f} s)\n", flush=True)


def main() -> None:
    available = parts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of: {', '.join(available)}")
    chosen = parser.parse_args().parts or list(available)
    if unknown := [name for name in chosen if name not in available]:
        parser.error(f"no such part: {', '.join(unknown)}; there are: {', '.join(available)}")
    for name in chosen:
        run(name, available[name])


if __name__ == "__main__":
    main()
