"""Renderers of a report: a page with pictures, or Markdown. `report` describes the content once for both."""

import dataclasses
import html
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from lrcssm.report.page import head, page
from lrcssm.report.plots import svg

Cell = str | tuple[str, ...]
"""Content of a table's cell: a line, or the published number and ours."""


@dataclasses.dataclass
class Part:
    """A piece of the report.

    **Attributes:**

    - `title`, `level`: of its heading; 2 for a table, 3 for a part of it.
    - `text`: paragraphs.
    - `heads`, `rows`: of a table; columns whose head ends in `<` are flush left.
    - `picture`: draws a picture, which only a page shows.
    - `drawn`: the picture shows all that the table does, so that a page folds the table.
    - `notes`: numbered, as the table refers to them.
    """

    title: str
    level: int = 2
    text: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[Cell]] = ()
    picture: Callable[[], Figure] | None = None
    drawn: bool = False
    notes: Sequence[str] = ()


_TITLE = "The paper's tables: published and ours"
_PROTOCOLS = (
    "Protocol clean: full test sets, all channels, and a seed decides on the split and on the first weights. Protocol "
    "published: what the paper's own code does, which leaves out the cases of the last incomplete batch of 4 and the first "
    "channel of Ethanol and Motor, and begins from the same weights for every seed. Numbers are means ± standard deviations "
    "over runs."
)
_STYLE = """
body { max-width: 64rem; } h2 { border-top: 1px solid var(--line); padding-top: 1.4rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
td .p { color: var(--faint); } td { vertical-align: top; } .notes, .notes p { font-size: 13px; color: var(--soft); }
.notes p { margin: .15rem 0; } table { font-size: 13px; } th, td { padding-right: .7rem; white-space: nowrap; }
details summary { margin-top: .3rem; font-size: 13px; color: var(--soft); }
"""


def as_page(parts: Sequence[Part], cards: Sequence[tuple[str, str]], day: str) -> str:
    """Render the report as a self-contained page; `day` is the day of its newest result."""
    return page(_TITLE, [head(_TITLE, f"{day}. {_PROTOCOLS}", cards), *map(_html, parts)], _STYLE)


def _html(part: Part) -> str:
    text = [f"<h{part.level}>{html.escape(part.title)}</h{part.level}>"] if part.title else []
    paragraphs = "".join(f"<p>{html.escape(one)}</p>" for one in part.text)
    if part.title:
        text.append(paragraphs)
    if part.picture is not None:
        text.append(svg(part.picture()))
    if part.rows:
        sides = ["" if name.endswith("<") else ' class="n"' for name in part.heads]
        names = "".join(f"<th{side}>{html.escape(name[:-1] if name.endswith('<') else name)}</th>"
                        for name, side in zip(part.heads, sides, strict=True))  # fmt: skip
        body = "".join(
            "<tr>" + "".join(f"<td{side}>{_html_cell(c)}</td>" for c, side in zip(row, sides, strict=True)) + "</tr>"
            for row in part.rows
        )
        table = f'<div class="wide"><table><tr>{names}</tr>{body}</table></div>'
        text.append(f"<details><summary>In numbers</summary>{table}</details>" if part.drawn else table)
    if part.notes or not part.title:
        numbered = "".join(f"<p>[{i}] {html.escape(note)}</p>" for i, note in enumerate(part.notes, 1))
        text.append(f'<div class="notes">{numbered}{"" if part.title else paragraphs}</div>')
    return "\n".join(text)


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return html.escape(cell)
    return f'<span class="p">{html.escape(cell[0])}</span><br><b>{html.escape(cell[1])}</b>'


def as_markdown(parts: Sequence[Part], cards: Sequence[tuple[str, str]], day: str) -> str:
    """Render the report as Markdown: tables of numbers in place of the pictures."""
    summary = f"{day}: " + ", ".join(f"{value} {label}" for value, label in cards) + "."
    blocks = [f"# {_TITLE}", f"{summary} Written by `lrcssm reproduce --report`.", _PROTOCOLS]
    for part in parts:
        if part.picture is not None and not part.rows:
            continue
        if part.title:
            blocks.append(f"{'#' * part.level} {part.title}")
        blocks += part.text
        if part.rows:
            names = [name.rstrip("<") or " " for name in part.heads]
            rules = ["---" if name.endswith("<") else "--:" for name in part.heads]
            lines = [names, rules, *([_markdown_cell(cell) for cell in row] for row in part.rows)]
            blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if part.notes:
            blocks.append("\n".join(f"- [{i}] {note}" for i, note in enumerate(part.notes, 1)))
    return "\n\n".join(blocks) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = cell if isinstance(cell, str) else f"{cell[0]} / **{cell[1]}**"
    return text.replace("|", "\\|").replace("][", "], [")  # side by side they would be a link
