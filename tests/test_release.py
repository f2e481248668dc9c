"""The project's metadata: one version, one list of Python versions, and a wheel that works without the repository."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import lrcssm

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_one_version():
    assert PROJECT["project"]["dynamic"] == ["version"]
    released = lrcssm.__version__.partition(".dev")[0]
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{released}}}" in (ROOT / "docs" / "citation.md").read_text()


def test_a_released_version_has_a_dated_entry():
    entries = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    dated = {version: rest for version, rest in entries if re.fullmatch(r" - \d{4}-\d\d-\d\d", rest)}
    if ".dev" not in lrcssm.__version__:
        assert lrcssm.__version__ in dated
        date = dated[lrcssm.__version__].removeprefix(" - ")
        assert f"date-released: {date}\n" in (ROOT / "CITATION.cff").read_text()


def test_continuous_integration_covers_the_supported_versions():
    supported = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.MULTILINE)
    listed = re.findall(r"python: \[(.+)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert listed and all(re.findall(r"\d\.\d+", one) == supported for one in listed)
    assert PROJECT["project"]["requires-python"] == f">={supported[0]}"


def test_packages_are_typed():
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (ROOT / package / "py.typed").exists()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment():
    pytest.importorskip("build", reason="needs the extra release")
    pytest.importorskip("twine", reason="needs the extra release")
    done = subprocess.run([ROOT / ".ci" / "package", sys.executable], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "work with Python" in done.stdout
