"""Builds a release: the package, requirements with hashes, and an SBOM, in one folder.

    python tools/release.py dist

`requirements.txt` pins every dependency to the version of `constraints.txt` and to the hashes of
its files, so that `pip install --require-hashes -r requirements.txt` installs what was tested and
nothing else. `pykueue-VERSION.cdx.json` lists the same packages as a CycloneDX SBOM. `SHA256SUMS`
has the hashes of all files of the folder, and `release-notes.md` is the section of the changelog.
The content depends on the versions alone: two runs write the same files. twine and
check-wheel-contents check the package.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
_NAME = re.compile(r"[-_.]+")
_FILE = re.compile(r"""href="[^"]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>""")
_SECONDS = 30

Package = dict[str, Any]
"""An entry of pip's installation report."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    packages = build(folder)
    _run("-m", "twine", "check", "--strict", *map(str, packages))
    _run("-m", "check_wheel_contents", *(str(path) for path in packages if path.suffix == ".whl"))
    own, *dependencies = read_report()
    version = own["metadata"]["version"]
    (folder / "release-notes.md").write_text(release_notes((ROOT / "CHANGELOG.md").read_text(), version))
    hashes = {name_of(package): hashes_of(package) for package in dependencies}
    (folder / "requirements.txt").write_text(requirements(dependencies, hashes))
    document = json.dumps(sbom(own, dependencies), indent=2) + "\n"
    (folder / f"pykueue-{version}.cdx.json").write_text(document)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums))
    for line in sums:
        sys.stdout.write(line)


def build(folder: Path) -> list[Path]:
    """The source distribution and the wheel."""
    _run("-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder.absolute()))
    return sorted([*folder.glob("*.tar.gz"), *folder.glob("*.whl")])


def release_notes(changelog: str, version: str) -> str:
    """The section of the version in the changelog, or of what is unreleased."""
    sections = re.split(r"^## \[(.+?)\].*\n", changelog, flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    return f"# pykueue {version}\n\n{(texts.get(version) or texts['Unreleased']).strip()}\n"


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT)


def read_report() -> list[Package]:
    """What pip would install for pykueue and its cluster extra: pykueue first, the rest by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        _run("-m", "pip", "install", *options, "--constraint", "constraints.txt", ".[cluster]")
        packages: list[Package] = json.loads(report.read_text())["install"]
    return sorted(packages, key=lambda package: (name_of(package) != "pykueue", name_of(package)))


def name_of(package: Package) -> str:
    """The normalized name, as PyPI compares names."""
    return _NAME.sub("-", package["metadata"]["name"]).lower()


def hashes_of(package: Package) -> list[str]:
    """The SHA-256 of all files of the release, for every platform; else of the file pip chose."""
    name, version = name_of(package), package["metadata"]["version"]
    chosen = package["download_info"]["archive_info"]["hashes"]["sha256"]
    try:
        with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=_SECONDS) as answer:
            page = answer.read().decode()
    except (urllib.error.URLError, TimeoutError) as error:
        sys.stderr.write(f"{name}: only the file for this platform has a hash ({error})\n")
        page = ""
    return sorted({chosen, *hashes_on_page(page, name, version)})


def hashes_on_page(page: str, name: str, version: str) -> set[str]:
    """The hashes of the files of one version on a page of the simple repository API."""
    pattern = re.compile(rf"{name.replace('-', '[-_.]+')}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)", re.IGNORECASE)
    return {digest for digest, file in _FILE.findall(page) if pattern.match(file)}


def requirements(packages: Iterable[Package], hashes: dict[str, list[str]]) -> str:
    entries = []
    for package in packages:
        lines = [f"{name_of(package)}=={package['metadata']['version']}"]
        lines += [f"    --hash=sha256:{digest}" for digest in hashes[name_of(package)]]
        entries.append(" \\\n".join(lines) + "\n")
    return "".join(entries)


def sbom(own: Package, packages: Iterable[Package]) -> dict[str, Any]:
    """A CycloneDX 1.6 document: the package, its dependencies, and who depends on whom."""
    packages = list(packages)
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(own) | {"type": "application"}},
        "components": [component(package) for package in packages],
        "dependencies": [_dependencies(package, [own, *packages]) for package in (own, *packages)],
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{identity}", **content}


def component(package: Package) -> dict[str, Any]:
    metadata, archive = package["metadata"], package["download_info"].get("archive_info", {})
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference(package),
        "name": name_of(package),
        "version": metadata["version"],
        "purl": reference(package),
    }
    if metadata.get("summary"):
        entry["description"] = metadata["summary"]
    if expression := metadata.get("license_expression"):
        entry["licenses"] = [{"expression": expression}]
    elif (text := metadata.get("license") or "") and "\n" not in text:
        entry["licenses"] = [{"license": {"name": text}}]
    if digest := archive.get("hashes", {}).get("sha256"):
        entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return entry


def reference(package: Package) -> str:
    return f"pkg:pypi/{name_of(package)}@{package['metadata']['version']}"


def _dependencies(package: Package, packages: Iterable[Package]) -> dict[str, Any]:
    """The packages of the release that this one requires, whatever the markers say."""
    required = {
        _NAME.sub("-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()
        for requirement in package["metadata"].get("requires_dist") or ()
    }
    others = sorted(reference(other) for other in packages if name_of(other) in required)
    return {"ref": reference(package), "dependsOn": others}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
