"""A page that needs nothing else: what the reports have in common."""

import html
from collections.abc import Iterable, Sequence

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 56rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0 .8rem; color: #444; }
svg { max-width: 100%; height: auto; }
code, pre { font: 13px/1.5 ui-monospace, monospace; background: #f4f4f2; border-radius: 4px; padding: .1rem .3rem; }
pre { padding: .7rem; overflow-x: auto; white-space: pre-wrap; }
table { border-collapse: collapse; font-size: 14px; } th, td { text-align: left; padding: .2rem .9rem .2rem 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } tr { border-bottom: 1px solid #e6e6e2; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.card { border: 1px solid #e0e0dc; border-radius: 8px; padding: .6rem 1rem; min-width: 8.5rem; }
.card b { display: block; font-size: 1.35rem; } .card span { font-size: .85rem; color: #666; }
details summary { cursor: pointer; margin-top: 2rem; }
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """The whole page; `style` comes after the common one."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}{style}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def section(title: str, text: str, content: str) -> str:
    """A heading, a sentence or two, and what is to be seen."""
    words = f"<p>{html.escape(text)}</p>" if text else ""
    return f"<h2>{html.escape(title)}</h2>{words}{content}"


def head(title: str, about: str, cards: Sequence[tuple[str, str]]) -> str:
    """The beginning of a page; `cards` are numbers and what they are."""
    inner = "".join(
        f'<div class="card"><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>'
        for value, label in cards
    )
    return f'<h1>{html.escape(title)}</h1><p>{html.escape(about)}</p><div class="cards">{inner}</div>'
