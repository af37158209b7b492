"""The command line of the story player: `python -m tools.stories {play,diff,consolidate,render-config}`."""

import argparse
import concurrent.futures
import fnmatch
import sys
import time
import traceback
from pathlib import Path

import yaml
from tools.stories import compare, shorthand
from tools.stories.cluster import ApiClient
from tools.stories.player import Story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stories", description="Play API stories and compare them.")
    commands = parser.add_subparsers(dest="command", required=True)

    play = commands.add_parser("play", help="play stories on a cluster and write what it shows")
    play.add_argument("stories", nargs="+", type=Path, help="story files")
    play.add_argument("--kubeconfig", type=Path, required=True, help="the cluster")
    play.add_argument("--out", type=Path, required=True, help="folder for the recordings")
    play.add_argument("--only", default="*", metavar="GLOB", help="play only stories whose name matches")
    play.add_argument("--parallel", type=int, default=1, help="how many stories to play at a time (default: 1)")
    play.add_argument("--lacking", default="", help="what the cluster lacks (pods,gc,nodes): such stories are skipped")
    play.add_argument("--worker", action="append", default=[], metavar="NAME=FILE", help="the kubeconfig of a worker")
    play.add_argument("--control", default="", metavar="COMMAND", help="called with a worker and backup or restore")
    play.add_argument("--patience", type=float, default=1, help="factor of waiting times, for a slow machine")
    play.add_argument("--keep", action="store_true", help="do not delete the objects at the end")
    play.set_defaults(run=_play)

    diff = commands.add_parser("diff", help="compare recordings with golden files; exit code 1 if any differs")
    diff.add_argument("golden", type=Path)
    diff.add_argument("out", type=Path)
    diff.add_argument("--only", default="*", metavar="GLOB", help="compare only these: a name, or variant/name.json")
    diff.add_argument("--tolerance", default="", help=f"ignore some of: {','.join(compare.TOLERANCES)}")
    diff.add_argument("--limit", type=int, default=15, help="differences to print for each story (default: 15)")
    diff.set_defaults(run=_diff)

    consolidate = commands.add_parser("consolidate", help="make golden files from several recordings")
    consolidate.add_argument("golden", type=Path)
    consolidate.add_argument("runs", nargs="+", type=Path)
    consolidate.set_defaults(run=_consolidate)

    render = commands.add_parser("render-config", help="print a base Configuration with the overrides of a variant")
    render.add_argument("base", type=Path)
    render.add_argument("override", type=Path)
    render.set_defaults(run=_render_config)

    options = parser.parse_args()
    code: int = options.run(options)
    return code


def _play(options: argparse.Namespace) -> int:
    api = ApiClient(options.kubeconfig)
    files = [
        file for file in options.stories if file.name != "config.yaml" and fnmatch.fnmatch(file.stem, options.only)
    ]
    crashes = 0
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        futures = [pool.submit(_play_one, api, file, options) for file in files]
        for future in concurrent.futures.as_completed(futures):
            name, status, seconds = future.result()
            crashes += status.startswith("CRASHED")
            _print(f"{name:<44} {seconds:5.1f}s  {status}")
    return 1 if crashes else 0


def _play_one(api: ApiClient, file: Path, options: argparse.Namespace) -> tuple[str, str, float]:
    workers = {name: Path(kubeconfig) for name, _, kubeconfig in (entry.partition("=") for entry in options.worker)}
    story = Story(api, file, workers=workers, control=options.control, patience=options.patience)
    if story.needs & set(options.lacking.split(",")):
        return story.key, "skipped", 0
    started, status = time.monotonic(), "ok"
    try:
        result = story.play()
    except Exception as error:  # noqa: BLE001 - one broken story must not stop the others
        traceback.print_exc()
        result, status = story.crash_report(error), f"CRASHED {error!r}"
    finally:
        if not options.keep:
            _clean_up(story)
    compare.save(options.out / story.variant / f"{story.key}.json", result)
    if result.get("timeouts"):
        status += f" timeouts: {'; '.join(result['timeouts'])}"
    return story.key, status, time.monotonic() - started


def _clean_up(story: Story) -> None:
    try:
        story.clean_up()
    except Exception as error:  # noqa: BLE001 - the recording is more important
        _print(f"cleaning up after {story.key}: {error!r}", file=sys.stderr)


def _diff(options: argparse.Namespace) -> int:
    recorded = compare.recordings(options.out)
    counts = {"same": 0, "differs": 0, "missing": 0}
    for name, file in compare.recordings(options.golden).items():
        if not fnmatch.fnmatch(file.stem, options.only) and not fnmatch.fnmatch(name, options.only):
            continue
        if name not in recorded:
            counts["missing"] += 1
            _print(f"missing  {name}")
            continue
        golden = compare.load(file)
        differences = compare.differences(golden, compare.load(recorded[name]), options.tolerance.split(","))
        counts["differs" if differences else "same"] += 1
        _print(f"differs  {name}  ({golden.get('claim')})" if differences else f"same     {name}")
        for difference in differences[: options.limit]:
            _print(f"    {difference}")
        if len(differences) > options.limit:
            _print(f"    ... and {len(differences) - options.limit} more")
    if counts["missing"]:
        _print(f"{counts['missing']} not played")
    _print(f"{counts['same']} same, {counts['differs']} differ")
    return 1 if counts["differs"] else 0


def _consolidate(options: argparse.Namespace) -> int:
    runs = [compare.recordings(directory) for directory in options.runs]
    names = sorted(set().union(*runs))
    for name in names:
        golden = compare.consolidate([compare.load(run[name]) for run in runs if name in run])
        for kind in ("unstable", "unstableEvents"):
            for entry in golden[kind]:
                _print(f"{name}: {kind}: {entry}")
        compare.save(options.golden / name, golden)
    _print(f"{len(names)} stories")
    return 0


def _render_config(options: argparse.Namespace) -> int:
    base, override = (yaml.safe_load(file.read_text()) or {} for file in (options.base, options.override))
    _print(yaml.safe_dump(shorthand.merge(base, override)), end="")
    return 0


def _print(text: str, **options: object) -> None:
    print(text, flush=True, **options)  # type: ignore[call-overload]  # noqa: T201 - a command prints


if __name__ == "__main__":
    sys.exit(main())
