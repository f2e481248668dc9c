"""Run the tutorials and write them, with their outputs and pictures, as pages: python tutorials/run.py [NAME ...]

A tutorial is a Python script in percent format, as Jupytext and most editors know it: `# %% [markdown]` starts a text, `# %%` a cell
of code. A cell of lines `# !command` is run by the shell. The value of the last line of a cell is shown, and so are its figures.

The pages go to docs/tutorials, with a checksum of their script, by which a test checks that they are up to date.
"""

import ast
import contextlib
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "tutorials"
PAGES = ROOT / "docs" / "tutorials"
STAMP = "<!-- Written by tutorials/run.py from tutorials/{name}.py, sha256 {sum}. Edit the script, not this page. -->"


def scripts() -> list[pathlib.Path]:
    """The tutorials, in alphabetical order."""
    return sorted(path for path in SCRIPTS.glob("*.py") if path.name != "run.py")


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a script, with Unix line endings."""
    return hashlib.sha256(path.read_text().encode()).hexdigest()


def stamp(path: pathlib.Path) -> str:
    """First line of the page of a script."""
    return STAMP.format(name=path.stem, sum=checksum(path))


def cells(text: str) -> list[tuple[str, str]]:
    """Cells of a script as pairs of kind (`"markdown"`, `"shell"` or `"code"`) and content."""
    found = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", text, re.MULTILINE):
        body = body.strip("\n")
        if "[markdown]" in head:
            found.append(("markdown", re.sub(r"^# ?", "", body, flags=re.MULTILINE)))
        elif body and all(line.startswith("# !") for line in body.splitlines()):
            found.append(("shell", re.sub(r"^# !", "", body, flags=re.MULTILINE)))
        elif body:
            found.append(("code", body))
    return found


def run(path: pathlib.Path, pages: pathlib.Path = PAGES) -> None:
    """Run one tutorial in this process, in a temporary folder, and write its page."""
    import matplotlib

    matplotlib.use("Agg")
    os.environ["LRCSSM_ROOT"] = str(ROOT)  # for tutorials that read files of the repository
    pages.mkdir(parents=True, exist_ok=True)
    pictures = pages / "img"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob(f"{path.stem}-*.png"):
        old.unlink()
    source, space, page = path.read_text(), {"__name__": "__main__"}, [stamp(path), ""]
    start, count = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, body in cells(source):
            if kind == "markdown":
                page += [body, ""]
            elif kind == "shell":
                page += ["```console", *_shell(body), "```", ""]
            else:
                output = _code(body, space, str(path))
                page += ["```python", body, "```", ""]
                if output:
                    page += ["```{ .text .no-copy }", output, "```", ""]
                for picture in _figures(pictures, f"{path.stem}-{count + 1}"):
                    count += 1
                    page += [f"![{_caption(body)}](img/{picture.name})", ""]
    seconds = time.perf_counter() - start
    page += [
        "---",
        "",
        f"*Script: `tutorials/{path.name}`. It ran in {seconds:.0f} seconds, compilation included.*",
        "",
    ]
    (pages / f"{path.stem}.md").write_text("\n".join(page))
    print(f"{path.stem}: {seconds:.0f} s", flush=True)


def _code(body: str, space: dict, name: str) -> str:
    """Run a cell and return its output, with the value of its last expression if it draws no figure."""
    import matplotlib.pyplot as plt

    tree, said = ast.parse(body), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, name, "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            if value is not None and not plt.get_fignums():
                print(value)
    return said.getvalue().rstrip()


def _shell(body: str) -> list[str]:
    """Run shell commands and return them with their outputs, as a terminal shows them."""
    lines = []
    places = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": places, "COLUMNS": "88", "TERM": "dumb"}
    for command in body.splitlines():
        done = subprocess.run(
            command, shell=True, text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            raise RuntimeError(f"{command} ended with code {done.returncode}:\n{done.stdout}")
        lines += [f"$ {command}", *map(str.rstrip, done.stdout.rstrip().splitlines())]
    return lines


def _figures(folder: pathlib.Path, stem: str) -> list[pathlib.Path]:
    """Save and close the open figures."""
    import matplotlib.pyplot as plt

    paths = []
    for number in plt.get_fignums():
        path = folder / (f"{stem}.png" if not paths else f"{stem}{chr(97 + len(paths))}.png")
        plt.figure(number).savefig(path, dpi=100, metadata={"Software": None})
        paths.append(path)
    plt.close("all")
    return paths


def _caption(body: str) -> str:
    """The first comment of a cell describes its picture."""
    first = re.search(r"^# (.*)$", body, re.MULTILINE)
    return first[1].rstrip(".") if first else "Picture"


def main() -> None:
    """Run the named tutorials, or all, each in a separate process."""
    if len(sys.argv) > 2 and sys.argv[1] == "--one":
        return run(SCRIPTS / f"{sys.argv[2]}.py", pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else PAGES)
    names = sys.argv[1:] or [path.stem for path in scripts()]
    failed = [name for name in names if subprocess.run([sys.executable, __file__, "--one", name]).returncode]
    if failed:
        raise SystemExit(f"These tutorials failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
