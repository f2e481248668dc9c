"""Tutorials run, and the pages of the site belong to the scripts as they are."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
NEEDS = {"sensor-data": "aeon", "irregular": "aeon", "forecast": "aeon", "deploy": "onnxruntime"}


def runner():
    """The module tutorials/run.py."""
    found = importlib.util.spec_from_file_location("run_tutorials", ROOT / "tutorials" / "run.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


RUNNER = runner()
NAMES = [path.stem for path in RUNNER.scripts()]


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_up_to_date(name):
    """`make tutorials` writes them."""
    page = (RUNNER.PAGES / f"{name}.md").read_text()
    assert page.startswith(RUNNER.stamp(RUNNER.SCRIPTS / f"{name}.py")), f"run: python tutorials/run.py {name}"
    pictures = re.findall(r"\]\((img/.+?)\)", page)
    assert pictures, "a tutorial ends in a picture"
    for picture in pictures:
        assert (RUNNER.PAGES / picture).stat().st_size < 100_000


def test_every_page_and_picture_has_a_script():
    pages = {path.stem for path in RUNNER.PAGES.glob("*.md")} - {"index"}
    assert pages == set(NAMES)
    linked = {
        picture for name in NAMES for picture in re.findall(r"\(img/(.+?)\)", (RUNNER.PAGES / f"{name}.md").read_text())
    }
    assert linked == {path.name for path in (RUNNER.PAGES / "img").iterdir()}
    index = (RUNNER.PAGES / "index.md").read_text()
    assert all(f"({name}.md)" in index for name in NAMES)


def test_cells_are_found():
    text = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\na = 1\n\nb = 2\n# %%\n# !echo hello\n"
    assert RUNNER.cells(text) == [("markdown", "# Title\n\nText."), ("code", "a = 1\n\nb = 2"), ("shell", "echo hello")]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_tutorials_run(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason="needs the extra tutorials")
    command = [sys.executable, ROOT / "tutorials" / "run.py", "--one", name, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "![" in (tmp_path / f"{name}.md").read_text()
