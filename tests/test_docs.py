"""The documentation is executed: README, pages and the examples in docstrings, each page and docstring as one program."""

import ast
import dataclasses
import os
import pathlib
import re

import jax
import pytest

import lrcssm
from lrcssm.features import FeatureMap
from lrcssm.training import fit

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NAMES = {name: getattr(lrcssm, name) for name in dir(lrcssm) if not name.startswith("_")}
PUBLIC = {name: value for name, value in NAMES.items() if getattr(value, "__module__", "").startswith("lrcssm.")}
# Pages and docstrings that take more than some seconds each.
SLOW = ()


def snippets(text):
    return [re.sub(r"^ {4,8}", "", block, flags=re.MULTILINE) if indent else block
            for indent, block in re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)]  # fmt: skip


def docstrings():
    """Every docstring with an example, by the name of its object."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if snippets(text):
                    found[f"{module}.{getattr(node, 'name', '')}".removesuffix(".")] = text
    return found


DOCSTRINGS = docstrings()


@pytest.fixture
def as_a_user_has_it(tmp_path, monkeypatch):
    """Pages are written for JAX's own defaults: 32-bit numbers, promotion as usual; files that they write are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def small(monkeypatch):
    """Few features and steps: the default ones are for optimised programs, as users and `make test-full` have them."""
    if os.environ.get("LRCSSM_TEST_OPTIMISED", "0") == "0":
        of = FeatureMap.of
        fewer = lambda cases, *, n_features, **more: of(cases, n_features=min(n_features, 1400), **more)
        monkeypatch.setattr(FeatureMap, "of", fewer)

        def shorter(model, train, validation, config, **more):
            steps = {name: min(getattr(config, name), 6) for name in ("steps", "check_every")}
            return fit(model, train, validation, dataclasses.replace(config, **steps), **more)

        monkeypatch.setattr("lrcssm.estimators.base.fit", shorter)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW), id=page.name) for page in PAGES],
)
def test_pages_run(page, as_a_user_has_it, small):
    blocks = snippets(page.read_text())
    if page.name in ("README.md", "index.md", "own-cell.md", "cells.md", "stability.md"):
        assert blocks
    space = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), space)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in DOCSTRINGS])
def test_docstrings_run(name, as_a_user_has_it, small):
    for block in snippets(DOCSTRINGS[name]):
        exec(compile(block, name, "exec"), {"__name__": "docstring"})


def test_every_concept_has_a_picture():
    """The pages of the section Concepts of the site."""
    section = re.search(r"^  - Concepts:\n((?:      - .*\n)+)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    concepts = re.findall(r": (\S+\.md)$", section[1], re.MULTILINE)
    assert len(concepts) >= 4
    for page in concepts:
        pictures = re.findall(r"^!\[.+?\]\((img/.+?)\)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert pictures and all((ROOT / "docs" / picture).exists() for picture in pictures), page


def test_what_is_public_is_explained():
    for name, value in (PUBLIC | dict(lrcssm.cells.ALL)).items():
        assert len(value.__doc__ or "") > 40, name


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
