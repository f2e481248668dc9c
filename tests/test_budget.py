"""The time budget of a run of the tests: exactly the tests that start too late are skipped, counted by file."""

import pathlib
import subprocess
import sys

import pytest

# The second of four tests spends the budget, or the share of its file.
FOUR = """
import budget, pytest

@pytest.mark.parametrize("i", range(4))
def test(i, request, pytestconfig):
    if i == 1 and pytestconfig.getoption("--share") is not None:
        pytestconfig.stash[budget.IN_FILES][request.path.name] += 10
    elif i == 1:
        pytestconfig.stash[budget.DEADLINE] = 0.0
"""


@pytest.fixture
def run(tmp_path):
    """A function that runs pytest in a separate process on two files of four tests, and returns its exit code and output."""
    (tmp_path / "test_a.py").write_text(FOUR)
    (tmp_path / "test_b.py").write_text(FOUR)

    def made(*options):
        words = [sys.executable, "-m", "pytest", "-p", "budget", "-p", "no:cacheprovider", "-c", "/dev/null", *options]
        environment = {"PYTHONPATH": str(pathlib.Path(__file__).parent), "PATH": ""}
        done = subprocess.run([*words, "."], cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout

    return made


def test_what_begins_late_is_left_out(run):
    code, text = run("--budget", "100")
    assert code == 0 and "2 passed" in text and "6 tests left out: time budget" in text
    assert "2  test_a.py" in text and "4  test_b.py" in text


def test_a_file_has_its_share(run):
    code, text = run("--budget", "100", "--share", "5")
    assert code == 0 and "4 passed" in text and "4 tests left out: share of its file" in text
    assert "2  test_a.py" in text and "2  test_b.py" in text


def test_processes_have_one_budget(run):
    code, text = run("--budget", "0", "-n", "2")
    assert code == 0 and "8 tests left out: time budget" in text and "passed" not in text


def test_a_failure_stays_a_failure(run, tmp_path):
    (tmp_path / "test_a.py").write_text("def test():\n    assert False\n")
    code, text = run("--budget", "100")
    assert code == 1 and "1 failed, 2 passed" in text and "2 tests left out" in text
