"""The architecture: packages import each other in one direction only, lazy imports included, and files stay small."""

import ast
import pathlib
import re

import pytest

import lrcssm

SOURCE = pathlib.Path(lrcssm.__file__).parent.parent
GROUND = (
    "compilation", "errors", "files", "interrupts", "lazy", "locks", "machine", "memory", "options", "plugins",
)  # fmt: skip
ROOMS = (
    *(GROUND,),
    ("engine",), ("cells",), ("stability", "checks"), ("data",), ("models", "features"), ("training",),
    ("estimators", "deploy", "tuning"), ("report",), ("cli",), ("__main__",),
)  # fmt: skip
"""Rooms of the library, from the ground up. A room imports rooms of lower floors only."""
LARGEST = 400


def modules(package):
    """The modules of a package by their dotted names."""
    for path in sorted((SOURCE / package).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(module, path):
    """Dotted names of what a module imports, anywhere in it, of this project."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = [*base, *(node.module.split(".") if node.module else [])]
            for name in node.names:
                whole = ".".join([*start, name.name])
                yield whole if (SOURCE / whole.replace(".", "/")).exists() or _is_module(whole) else ".".join(start)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _is_module(name):
    return (SOURCE / (name.replace(".", "/") + ".py")).exists()


def room(name):
    """The room of a module: the part after the package, or the package itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_room_has_a_floor():
    known = {one for floor in ROOMS for one in floor}
    assert {room(name) for name, _ in modules("lrcssm")} <= known | {""}


def test_arrows_point_up():
    floors = {one: number for number, floor in enumerate(ROOMS) for one in floor}
    wrong = []
    for name, path in modules("lrcssm"):
        own = room(name)
        if own == "":
            continue  # the package itself shows names of all rooms
        for other in imports(name, path):
            if other.partition(".")[0] != "lrcssm":
                continue
            target = room(other)
            if target == "":  # only the version and the description of the package
                assert own in ("cli", "data", "machine"), (name, other)
            elif target != own and not floors[target] < floors[own] and not {own, target} <= set(GROUND):
                wrong.append(f"{name} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_no_cycle_between_packages():
    arrows = {}
    for package in ("lrcssm", "lrcssm_paper"):
        for name, path in modules(package):
            own = room(name) or name
            for other in imports(name, path):
                if other.partition(".")[0] == package and room(other) and room(other) != own and room(name):
                    arrows.setdefault((package, own), set()).add((package, room(other)))
    packages = {(p, d.name) for p in ("lrcssm", "lrcssm_paper") for d in (SOURCE / p).iterdir() if d.is_dir()}
    arrows = {a: {b for b in to if b in packages} for a, to in arrows.items() if a in packages}
    done, path = set(), []

    def visit(node):
        assert node not in path, " → ".join(name for _, name in [*path[path.index(node) :], node])
        if node not in done:
            path.append(node)
            for following in sorted(arrows.get(node, ())):
                visit(following)
            path.pop()
            done.add(node)

    for node in sorted(arrows):
        visit(node)


def test_the_library_never_imports_the_research_wing():
    for name, path in modules("lrcssm"):
        assert not [other for other in imports(name, path) if other.startswith("lrcssm_paper")], name


@pytest.mark.parametrize("package", ["lrcssm", "lrcssm_paper"])
def test_files_are_small(package):
    large = {
        str(path): count for _, path in modules(package) if (count := len(path.read_text().splitlines())) > LARGEST
    }
    assert not large


def test_public_names_are_reachable_and_nothing_else_shows():
    assert all(hasattr(lrcssm, name) for name in lrcssm.__all__)
    assert set(dir(lrcssm)) == set(lrcssm.__all__)
    for name in ("data", "models", "training", "estimators", "export"):
        assert getattr(lrcssm, name).__name__.startswith("lrcssm.")


def strings(path):
    """All texts in a module, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_the_library_speaks_of_arguments():
    """Options, with two hyphens, are for the command line."""
    wrong = [
        f"{path}:{line}: {text[:80]}"
        for name, path in modules("lrcssm")
        if room(name) != "cli"
        for line, text in strings(path)
        if re.search(r"(^|[\s`(;])--[a-z][a-z-]*(?![a-z:)-])", text)
    ]
    assert not wrong, "\n".join(wrong)


BUILT_IN = {"ValueError", "TypeError", "FloatingPointError", "ImportError"}
# Phrases that another function completes to a sentence, and catches.
COMPLETED = {
    "options.py",
    "readers/source.py",
    "features/forecast.py",
    "features/model.py",
    "features/units.py",
    "training/trained.py",
}


def test_errors_derive_from_one_class():
    """A user's mistake raises an `LrcssmError`, by which the command line knows it."""
    wrong = []
    for _, path in modules("lrcssm"):
        for node in ast.walk(ast.parse(path.read_text())):
            made = node.exc.func if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None
            if isinstance(made, ast.Name) and made.id in BUILT_IN and not str(path).endswith(tuple(COMPLETED)):
                wrong.append(f"{path}:{node.lineno}: {made.id}")
    assert not wrong, "\n".join(wrong)
