"""Tables on a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import printable


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[str] | None], *, title: str, notes: Iterable[str]
) -> None:
    """Print a table with a title above and notes below; text from files does not control the terminal.

    **Arguments:**

    - `heads`: of the columns; all but those that end in `<` are flush right.
    - `rows`: the cells of each row, or `None` for a rule.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    console.width = max(console.width, 80)  # a number that is cut is worse than a line that is broken
    console.print(printable(title))
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    for head in heads:
        table.add_column(
            "\n".join(map(printable, head.rstrip("<").split("\n"))),
            justify="left" if head.endswith("<") else "right",
            no_wrap=True,
        )
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*map(printable, row))
    # A table that is wider than the terminal is broken by it, line by line; Rich would cut its cells.
    width, console.width = console.width, 1000
    console.width = max(width, console.measure(table).maximum)
    console.print(table, crop=False, no_wrap=True)
    console.width = width
    for note in notes:
        console.print(printable(note))


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns; values that are `None` or empty are left out."""
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value is None or value in ([], {}):
            continue
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(value, Mapping):
            words = ", ".join(f"{key} {one}" for key, one in value.items())
        table.add_row(name, f"{words:,}" if type(words) is int else printable(str(words)))
    Console(highlight=False, markup=False).print(table)


def number(value: float | None) -> str:
    """Format a number with its significant digits."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.1g}"


def doubts(environment: dict[str, Any], uneven: Sequence[str]) -> list[str]:
    """Warnings about unreliable measurements of time. Threads that spin while waiting, as PyTorch's do, can be ten times slower
    on shared cores, which would bias the comparison.

    **Arguments:**

    - `environment`: the result of `lrcssm.machine.environment`.
    - `uneven`: names of measurements with widely varying times.
    """
    load, cores = environment["load"], environment["cores"]
    sentences = []
    if load is not None and cores is not None and load > cores / 2:
        most = ", and those of PyTorch most" if environment.get("versions", {}).get("torch") else ""
        sentences.append(
            f"The load was {load:.1f} on {cores} cores at the start: other programs disturb the times{most}; measure "
            "again on a quiet machine before you quote them."
        )
    if uneven:
        sentences.append(f"Uneven times, median over 1.5 times the best: {', '.join(dict.fromkeys(uneven))}.")
    return sentences
