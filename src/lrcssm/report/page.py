"""Building blocks of the reports: self-contained pages in light and dark, for desktops and phones."""

import html
from collections.abc import Iterable, Sequence

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --faint: #8a8a86; --line: #e2e2de; --paper: #fff; --box: #f4f4f2;
  --for: 59, 116, 184; --against: 201, 82, 77; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --soft: #b4b4b0; --faint: #8a8a86; --line: #3a3d42;
  --paper: #17191d; --box: #24272c; --for: 96, 156, 224; --against: 226, 110, 104; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
ul { margin: .2rem 0 .8rem; padding-left: 1.2rem; color: var(--soft); } p { margin: .3rem 0 .8rem; color: var(--soft); } .headline { font-size: 1.15rem; color: var(--ink); margin: .8rem 0 .3rem; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); }
code, pre { font: 13px/1.5 ui-monospace, monospace; background: var(--box); border-radius: 4px; padding: .1rem .3rem; }
pre { padding: .7rem; overflow-x: auto; white-space: pre-wrap; }
table { border-collapse: collapse; font-size: 14px; } th, td { text-align: left; padding: .2rem .9rem .2rem 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem; min-width: 8.5rem; }
.card b { display: block; font-size: 1.35rem; } .card span { font-size: .85rem; color: var(--soft); }
.row { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; align-items: flex-start; }
figure { margin: 0; max-width: 100%; } figcaption { font-size: 13px; color: var(--soft); max-width: 17rem; }
.wide { overflow-x: auto; max-width: 100%; } .wide svg { max-width: none; }
.bars { width: 100%; max-width: 36rem; } .bars td { vertical-align: middle; } .bars td:first-child { width: 35%; }
.bar { height: .8rem; border-radius: 2px; min-width: 1px; } .bars td.track { width: 40%; padding-right: .6rem; }
details summary { cursor: pointer; margin-top: 2rem; } details.near summary { margin-top: .6rem; color: var(--soft); }
@media (max-width: 30rem) { body { margin: 1rem auto; } .cards { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
  .card { min-width: 0; padding: .5rem .7rem; } .card b { font-size: 1.15rem; } th, td { padding-right: .6rem; } }
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Assemble a page.

    **Arguments:**

    - `title`: of the window.
    - `parts`: pieces of HTML.
    - `style`: CSS after the common one.
    """
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}{style}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def section(title: str, text: str, content: str) -> str:
    """A heading, a sentence or two, and HTML below them."""
    words = f"<p>{html.escape(text)}</p>" if text else ""
    return f"<h2>{html.escape(title)}</h2>{words}{content}"


def head(title: str, about: str, cards: Sequence[tuple[str, str]], headline: str = "") -> str:
    """The beginning of a page.

    **Arguments:**

    - `title`: the heading.
    - `about`: a line of facts.
    - `cards`: numbers and their names.
    - `headline`: the result in words.
    """
    inner = "".join(
        f'<div class="card"><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>'
        for value, label in cards
    )
    words = f'<p class="headline">{html.escape(headline)}</p>' if headline else ""
    return f'<h1>{html.escape(title)}</h1>{words}<p>{html.escape(about)}</p><div class="cards">{inner}</div>'


def row(figures: Iterable[tuple[str, str]]) -> str:
    """Pictures with captions, in as many columns as fit."""
    each = (
        f"<figure>{picture}" + (f"<figcaption>{html.escape(caption)}</figcaption>" if caption else "") + "</figure>"
        for picture, caption in figures
    )
    return f'<div class="row">{"".join(each)}</div>'


def wide(content: str) -> str:
    """Content that scrolls sideways if it is wider than the window."""
    return f'<div class="wide">{content}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text; all columns but the first are flush right."""
    kind = lambda i: ' class="n"' if i else ""
    top = "".join(f"<th{kind(i)}>{html.escape(one)}</th>" for i, one in enumerate(heads))
    lines = (
        "<tr>" + "".join(f"<td{kind(i)}>{html.escape(one)}</td>" for i, one in enumerate(cells)) + "</tr>"
        for cells in rows
    )
    return wide(f"<table><tr>{top}</tr>{''.join(lines)}</table>")


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: name, value and the value as text; negative values in another colour."""
    top = max((abs(value) for _, value, _ in rows), default=0.0) or 1.0
    lines = (
        f'<tr><td>{html.escape(name)}</td><td class="track"><div class="bar" style="width:{100 * abs(value) / top:.1f}%;'
        f'background:rgb(var(--{"for" if value >= 0 else "against"}))"></div></td><td class="n">{html.escape(text)}</td></tr>'
        for name, value, text in rows
    )
    return f'<table class="bars">{"".join(lines)}</table>'


def folded(summary: str, content: str) -> str:
    """Collapsible content."""
    return f'<details class="near"><summary>{html.escape(summary)}</summary>{content}</details>'
