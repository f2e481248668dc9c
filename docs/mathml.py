"""A mkdocs hook: formulas are turned into MathML while building, so that pages need no script and no network."""

import html
import logging
import re

from latex2mathml.converter import convert

log = logging.getLogger("mkdocs.plugins.mathml")

# What pymdownx.arithmatex leaves: \(…\) in a span, \[…\] in a div.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def on_page_content(content, page, **_):
    def formula(match):
        tag, tex = match[1], html.unescape(match[2]).strip().replace("{aligned}", "{align*}")
        try:
            mathml = convert(tex, display="inline" if tag == "span" else "block")
        except Exception as error:
            log.warning("%s: the formula %s cannot be read (%s): simplify it.", page.file.src_path, tex, error)
            return match[0]
        if "\\" in html.unescape(mathml) or "<mi>&</mi>" in mathml:
            log.warning("%s: the formula %s has a command unknown to latex2mathml.", page.file.src_path, tex)
        # Browsers align table cells by style; the attribute of older MathML they pass over.
        mathml = re.sub(r'<mtd columnalign="(\w+)"', r'<mtd style="text-align: \1"', mathml)
        # No space around the bars of an absolute value.
        mathml = re.sub(
            r"<mo(?: stretchy=\"false\")?>(?=(?:&#x0007C;|\||&#x02223;)</mo>)",
            '<mo stretchy="false" lspace="0" rspace="0">',
            mathml,
        )
        # A thin space between a function and its argument without brackets: log T.
        mathml = re.sub(r"(<mi>(?:log|exp|tanh)</mi>)(?=<m[in]>)", r'\1<mspace width="0.167em"></mspace>', mathml)
        return f'<{tag} class="arithmatex">{mathml}</{tag}>'

    return FORMULA.sub(formula, content)
