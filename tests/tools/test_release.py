"""The files of a release, from a report of pip."""

from tools import release


def package(name, version="1.0", *, requires=(), digest="aa", **metadata):
    info = {"archive_info": {"hashes": {"sha256": digest}}} if digest else {"dir_info": {}}
    return {
        "metadata": {"name": name, "version": version, "requires_dist": list(requires), **metadata},
        "download_info": info,
    }


OWN = package("pykueue", requires=["Py_YAML>=6", "rich>=1; extra == 'x'", "absent"], digest="")
YAML = package("Py.YAML", "6.0", license_expression="MIT", digest="bb")
RICH = package("rich", requires=["py-yaml"], license="BSD", summary="Colours")


def test_requirements_have_a_version_and_all_hashes():
    text = release.requirements([YAML], {"py-yaml": ["aa", "bb"]})
    assert text == "py-yaml==6.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"


def test_hashes_are_those_of_one_version():
    files = {
        "a": "py_yaml-6.0-cp311-linux.whl",
        "b": "py-yaml-6.0.tar.gz",
        "c": "py_yaml-6.0.1.tar.gz",
        "d": "x-6.0.zip",
    }
    page = "".join(f'<a href="https://x/{file}#sha256={key * 64}" data-x="1">{file}</a>' for key, file in files.items())
    assert release.hashes_on_page(page, "py-yaml", "6.0") == {"a" * 64, "b" * 64}


def test_the_bill_of_materials_lists_packages_and_who_needs_them():
    document = release.sbom(OWN, [YAML, RICH])
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/pykueue@1.0"
    yaml, rich = document["components"]
    assert (yaml["purl"], yaml["licenses"], yaml["hashes"]) == (
        "pkg:pypi/py-yaml@6.0",
        [{"expression": "MIT"}],
        [{"alg": "SHA-256", "content": "bb"}],
    )
    assert (rich["licenses"], rich["description"]) == ([{"license": {"name": "BSD"}}], "Colours")
    depends = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert depends["pkg:pypi/pykueue@1.0"] == ["pkg:pypi/py-yaml@6.0", "pkg:pypi/rich@1.0"]
    assert depends["pkg:pypi/rich@1.0"] == ["pkg:pypi/py-yaml@6.0"]


def test_two_runs_write_the_same_document():
    assert release.sbom(OWN, [YAML]) == release.sbom(OWN, [YAML])
    assert release.sbom(OWN, [YAML])["serialNumber"] != release.sbom(OWN, [RICH])["serialNumber"]
