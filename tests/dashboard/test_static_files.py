import re
from pathlib import Path

import pytest

from pykueue.dashboard import rows, static_files

STATIC = Path(static_files.__file__).parent / "static"
FILES = static_files.load()
MOST_BYTES = 300_000


def test_the_page_is_small():
    served = {path: file for path, file in FILES.items() if "LICENSES" not in path and path.count(".")}
    assert sum(len(file.data) for file in served.values()) < MOST_BYTES


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith((".js", ".css", ".html", "/"))])
def test_a_file_names_no_other_server(path):
    text = FILES[path].data.decode()
    addresses = re.findall(r"https?://[^\s\"'`)]+", text)
    allowed = ("http://www.w3.org/", "http://127.0.0.1", "https://github.com/leeoniya/uPlot")
    assert [address for address in addresses if not address.startswith(allowed)] == []


def test_every_import_is_a_file_of_the_page():
    for source in STATIC.rglob("*.js"):
        for name in re.findall(r"from\s*[\"']([^\"']+)[\"']", source.read_text()):
            assert (source.parent / name).is_file(), f"{source.name} imports {name}"


def test_the_html_has_no_inline_script_or_style():
    text = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_the_policy_allows_no_inline_code_and_no_frame():
    policy = static_files.HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy.split("; "))


def test_the_libraries_have_their_licences():
    text = FILES["/dashboard/vendor/LICENSES.txt"].data.decode()
    assert all(name in text for name in ("preact", "htm", "uplot", "MIT", "Apache License"))


def test_the_page_knows_the_fields_of_a_workload():
    names = re.search(r"FIELDS = \[(.*?)\]", (STATIC / "store.js").read_text(), re.DOTALL).group(1)
    assert tuple(re.findall(r'"(\w+)"', names)) == rows.WORKLOAD_FIELDS
