"""The time budget of a run of the tests: what begins too late is left out, counted by file, and nothing else is."""

import pathlib
import subprocess
import sys

import pytest

SLEEPS = "import time, pytest\n@pytest.mark.parametrize('i', range(4))\ndef test_sleep(i):\n    time.sleep(0.4)\n"
FAILS = "def test_failure():\n    assert False\n"


@pytest.fixture
def run(tmp_path):
    """A function that runs pytest in a process of its own on files of one test each, and gives its exit code and output."""
    (tmp_path / "test_a.py").write_text(SLEEPS)
    (tmp_path / "test_b.py").write_text(SLEEPS)

    def made(*options, files=("test_a.py", "test_b.py")):
        words = [sys.executable, "-m", "pytest", "-p", "budget", "-p", "no:cacheprovider", "-c", "/dev/null", *files]
        environment = {"PYTHONPATH": str(pathlib.Path(__file__).parent), "PATH": ""}
        done = subprocess.run([*words, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout

    return made


def test_what_begins_late_is_left_out(run):
    """Of eight tests of 0.4 s, about three begin within a second, and the run is green."""
    code, text = run("--budget", "1")
    assert code == 0 and "tests left out: time budget" in text
    passed = int(text.rsplit(" passed", 1)[0].split()[-1])
    assert 1 <= passed <= 3 and f"{8 - passed} tests left out: time budget" in text
    assert "4  test_b.py" in text and f"{4 - passed}  test_a.py" in text


def test_a_file_has_its_share(run):
    code, text = run("--budget", "100", "--share", "0.6")
    assert code == 0 and "4 passed" in text and "4 tests left out: share of its file" in text
    assert "2  test_a.py" in text and "2  test_b.py" in text


def test_processes_share_the_budget(run):
    code, text = run("--budget", "0", "-n", "2")
    assert code == 0 and "8 tests left out: time budget" in text and "passed" not in text


def test_a_failure_stays_a_failure(run, tmp_path):
    (tmp_path / "test_f.py").write_text(FAILS)
    code, text = run("--budget", "100", files=("test_f.py",))
    assert code == 1 and "1 failed" in text and "left out" not in text
    assert run(files=("test_a.py",))[0] == 0
