"""The command line: output, errors and lazy imports."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import typing

import jax
import numpy as np
import pytest

import lrcssm
from lrcssm import cli
from lrcssm.cli.parser import Arg
from lrcssm.report.table import print_table

TINY = ("benchmark", "engine", "--lengths", "5", "--state-dim", "3", "--rounds", "2", "--methods", "scan")


def python(code):
    """Run source in a fresh process and return its output."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def fails(capsys, *words, code=2):
    """Run a command that must fail with one sentence, and return the sentence."""
    assert cli.main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lrcssm: ") and err.endswith(".\n") and err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.fixture
def command(monkeypatch):
    """A function that makes `lrcssm try` call something."""

    def install(action):
        class Try:
            """Try."""

            def run(self):
                action()

        monkeypatch.setitem(cli.COMMANDS, "try", dataclasses.dataclass(Try))

    return install


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"lrcssm {lrcssm.__version__}\n"


def test_module():
    run = subprocess.run([sys.executable, "-m", "lrcssm", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"lrcssm {lrcssm.__version__}\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help(words, capsys):
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert err == "" and lrcssm.__doc__ in out and "--version" in out
    assert all(name in out for name in cli.commands())


def options_of(command):
    """Names that the help must contain: --option, or POSITIONAL."""
    for field in dataclasses.fields(command):
        if dataclasses.is_dataclass(field.default):
            yield from options_of(type(field.default))
        else:
            where = typing.get_type_hints(command, include_extras=True)[field.name]
            positional = [one for one in getattr(where, "__metadata__", ()) if isinstance(one, Arg) and one.positional]
            yield positional[0].metavar if positional else f"--{field.name.replace('_', '-')}"


def test_help_of_every_command(capsys):
    def walk(commands, words):
        for name, command in commands.items():
            command = cli._loaded(command) if name else None
            if isinstance(command, dict):
                walk(command, [*words, name])
            elif name:
                assert cli.main([*words, name, "--help"]) == 0
                out = capsys.readouterr().out
                for name in options_of(command):
                    assert name in out

    walk(cli.commands(), [])


def test_info(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert cli.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["versions"]["lrcssm"] == lrcssm.__version__
    assert facts["versions"]["jax"] == jax.__version__
    assert facts["dtype"] == "float64"  # of the tests
    assert facts["backend"] == jax.default_backend() and len(facts["devices"]) == jax.device_count()
    assert facts["cores"] >= 1
    for package in ("lrcssm", "jax", "equinox", "numpy"):
        assert package in text and facts["versions"][package] in text


def test_info_about_a_model(tmp_path, capsys):
    config = lrcssm.ModelConfig(input_dim=2, output_dim=3, hidden_dim=4, state_dim=4, num_blocks=1, bidirectional=True)
    model = lrcssm.SequenceModel(config, jax.random.key(0))
    known = {"classes": np.array(["a", "b", "c"]), "channels": ("left", "right"), "unit": 0.25, "missing": "mask"}
    lrcssm.save(tmp_path / "model", lrcssm.training.Trained(model, **known))
    assert cli.main(["info", str(tmp_path / "model")]) == 0
    text = capsys.readouterr().out
    for word in ("left, right", "a, b, c", "0.25", "mask", "LRC", "hidden_dim", "no: it is bidirectional"):
        assert word in text
    assert cli.main(["info", str(tmp_path / "model"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["channels"] == ["left", "right"] and facts["parameters"] == lrcssm.models.parameter_count(model)
    assert cli.main(["info", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"lrcssm: {tmp_path / 'none'} does not exist.\n"


def test_a_table_is_never_cut(capsys, monkeypatch):
    """However narrow the terminal is."""
    monkeypatch.setenv("COLUMNS", "40")
    print_table(["model<", "two\nlines<"], [["x" * 90, "1.25 ± 0.5"]], title="t", notes=["n " * 80])
    text = capsys.readouterr().out
    assert "x" * 90 in text and "1.25 ± 0.5" in text and "…" not in text
    assert max(map(len, text.splitlines()[-1:])) <= 80


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nonsense", "'nonsense'; give one of train, evaluate, predict, forecast, tune, export, data, info"),
        ("benchmark", "lrcssm benchmark needs a command: engine, cells"),
        ("benchmark nonsense", "nonsense"),
        ("info --jsn", "perhaps you meant --json"),
        ("benchmark engine --lengths x", "--lengths got 'x'; give a whole number"),
        ("benchmark engine --lengths 0", "--lengths got 0"),
        ("benchmark engine --lengths", "--lengths got no value"),
        ("benchmark engine --batch -1", "--batch got -1"),
        ("benchmark engine --methods newton", "--methods got 'newton'; give "),
        ("benchmark engine --form new", "--form got 'new'; give paper or released"),
        ("benchmark engine --json", "--json got no value; give one"),
        ("benchmark engine --json nowhere/record.json", "'nowhere/record.json': its directory does not exist"),
        ("benchmark engine --json .", "'.': it is a directory"),
        ("benchmark cells --cells Perceptron", "--cells got 'Perceptron'; give all, or some of LRC, LRC-released, "),
        ("benchmark cells --cells", "--cells got no value"),
        ("benchmark cells --length 0", "--length got 0"),
        ("benchmark cells --solver newton", "'newton'"),
        ("benchmark cells --json .", "'.': it is a directory"),
    ],
)
def test_mistakes(words, says, capsys):
    assert says in fails(capsys, *words.split())


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_mistakes_in_every_encoding(encoding):
    run = subprocess.run(
        [sys.executable, "-m", "lrcssm", "benchmark", "engine", "--batch", "0"],
        capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == "lrcssm: --batch got 0; give numbers of at least 1.\n"


def test_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    assert "--form got 'new'; give paper or released" in fails(capsys, "benchmark", "engine", "--form", "new")


def test_missing_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert 'pip install "lrcssm[bench]"' in fails(capsys, "benchmark", "engine", "--methods", "lstm")


def test_interrupt(capsys, command):
    def interrupt():
        raise KeyboardInterrupt

    command(interrupt)
    assert fails(capsys, "try", code=130) == "lrcssm: interrupted.\n"


def test_errors_of_the_package_are_sentences(capsys, command):
    command(lambda: lrcssm.Sequential(chunk=0))
    assert "Sequential got chunk=0; give at least one step" in fails(capsys, "try")


def test_errors_of_the_system_are_sentences(capsys, command):
    command(pathlib.Path("nowhere/file").read_text)
    assert fails(capsys, "try") == "lrcssm: Cannot use 'nowhere/file': No such file or directory.\n"

    def exhaust():
        raise MemoryError

    command(exhaust)
    assert "Not enough memory" in fails(capsys, "try")


@pytest.mark.parametrize("error", [ValueError, TypeError, ZeroDivisionError, ModuleNotFoundError])
def test_bugs_keep_their_traceback(error, command):
    def fail():
        raise error("from somewhere else")

    command(fail)
    with pytest.raises(error, match="somewhere else"):
        cli.main(["try"])


def test_benchmark_engine_to_stdout(capsys):
    assert cli.main([*TINY, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in record["rows"]] == ["scan"]
    assert record["command"].startswith("lrcssm benchmark engine --rounds 2") and "--lengths 5" in record["command"]


def test_benchmark_engine_to_file(capsys, tmp_path):
    path = tmp_path / "record.json"
    assert cli.main([*TINY, "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "lax.scan" in out
    assert str(tmp_path) not in path.read_text()
    assert len(json.loads(path.read_text())["rows"]) == 1


HEAVY = {"sklearn", "optuna", "matplotlib", "diffrax", "aeon", "torch"}


def imported(code):
    """The top-level modules that some source imports."""
    names = "print(' '.join({m.partition('.')[0] for m in sys.modules}))"
    return set(python(f"import sys\n{code}\n{names}").splitlines()[-1].split())


def test_import_is_light():
    assert not imported("import lrcssm") & (HEAVY | {"rich", "tyro"})


def test_command_line_is_light():
    """Showing help imports nothing that only some commands need."""
    code = "from lrcssm.cli import main\nmain(['--help'])\nmain(['train', '--help'])"
    assert not imported(code) & HEAVY


def test_import_is_quick():
    """At most 0.3 seconds of a processor on top of what it stands on: the best of three."""
    timed = "import time, jax, equinox; start = time.process_time(); import lrcssm; print(time.process_time() - start)"
    assert min(float(python(timed)) for _ in range(3)) < 0.3
