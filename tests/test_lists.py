"""Coverage of the default tests: all cells, architectures, estimators, pages and docstrings are in lists that are not slow."""

import cases
import jax
import pytest
import test_docs
import test_every_architecture
import test_every_estimator
import test_gradients

from lrcssm import cells, estimators
from lrcssm.models import ARCHITECTURES


def default(function, argument):
    """The values of a parameter that a test takes without --slow."""
    found = []
    for mark in function.pytestmark:
        if mark.name != "parametrize":
            continue
        names = [mark.args[0]] if isinstance(mark.args[0], str) else [*mark.args[0]]
        if argument in names:
            sets = [
                value if hasattr(value, "marks") else pytest.param(*(value if len(names) > 1 else [value]))
                for value in mark.args[1]
            ]
            found += [
                one.values[names.index(argument)] for one in sets if all(mark.name != "slow" for mark in one.marks)
            ]
    return found


def test_cells():
    made = {name: cases.CELLS[name][0](3, 4, key=jax.random.key(0)) for name in cases.EACH}
    assert sorted(type(cell).__name__ for cell in made.values()) == sorted(cells.ALL)
    assert {*cases.EACH} <= {*default(test_gradients.test_equals_finite_differences, "cell")}
    assert {*cells.ALL} <= {ARCHITECTURES[name]["cell"] for name in ARCHITECTURES}


def test_architectures():
    assert default(test_every_architecture.test_architecture, "name") == [*ARCHITECTURES]


def test_estimators():
    tested = default(test_every_estimator.test_estimator, "name") + default(
        test_every_estimator.test_forecaster, "name"
    )
    assert sorted(tested) == sorted(estimators.PUBLIC)


def test_documentation():
    """A page may be slow only if all that it shows is on others too."""
    pages = default(test_docs.test_pages_run, "page")
    run = {block for page in pages for block in test_docs.snippets(page.read_text())}
    shown = {page.name: set(test_docs.snippets(page.read_text())) for page in test_docs.PAGES}
    assert {name: blocks - run for name, blocks in shown.items() if blocks - run} == {}
    assert default(test_docs.test_docstrings_run, "name") == [*test_docs.DOCSTRINGS]
