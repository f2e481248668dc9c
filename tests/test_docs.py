"""What the documentation shows is run: README, pages and the examples in docstrings, each file as one program."""

import pathlib
import re

import jax
import pytest

import lrcssm

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NAMES = {name: getattr(lrcssm, name) for name in dir(lrcssm) if not name.startswith("_")}
PUBLIC = {name: value for name, value in NAMES.items() if getattr(value, "__module__", "").startswith("lrcssm.")}
ESTIMATORS = ("LrcSSMClassifier", "LrcSSMForecaster", "LrcSSMRegressor")
STABILITY = {name: getattr(lrcssm.stability, name) for name in ("certify", "diagnose", "time_constants")}
SLOW = (
    "index.md",  # its code is that of the README
    "five-minutes.md",
    "estimators.md",
    "own-cell.md",
    "cells.md",
    "models.md",
    "tuning.md",
    "stability.md",
    "long.md",
    "check_agreement",
    *ESTIMATORS,
)
OBJECTS = {name: PUBLIC[name] for name in sorted(PUBLIC)} | dict(lrcssm.cells.ALL) | STABILITY


def snippets(text):
    return [re.sub(r"^ {4,8}", "", block, flags=re.MULTILINE) if indent else block
            for indent, block in re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)]  # fmt: skip


@pytest.fixture
def as_a_user_has_it():
    """Pages are written for JAX's own defaults: 32-bit numbers, promotion as usual."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW), id=page.name) for page in PAGES],
)
def test_pages_run(page, as_a_user_has_it):
    blocks = snippets(page.read_text())
    if page.name in ("README.md", "index.md", "own-cell.md", "cells.md", "stability.md"):
        assert blocks
    space = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), space)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in OBJECTS])
def test_docstrings_run(name, as_a_user_has_it):
    text = OBJECTS[name].__doc__
    assert text and len(text) > 40
    for block in snippets(text):
        exec(compile(block, name, "exec"), {"__name__": "docstring"})


def test_every_concept_has_a_picture():
    """The pages of the section Concepts of the site."""
    section = re.search(r"^  - Concepts:\n((?:      - .*\n)+)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    concepts = re.findall(r": (\S+\.md)$", section[1], re.MULTILINE)
    assert len(concepts) >= 4
    for page in concepts:
        pictures = re.findall(r"^!\[.+?\]\((img/.+?)\)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert pictures and all((ROOT / "docs" / picture).exists() for picture in pictures), page


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
