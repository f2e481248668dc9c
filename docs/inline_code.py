"""A mkdocs hook: words with hyphens in inline code, such as --help, are not broken across lines."""

import re

# Code blocks, which are skipped, and inline code.
CODE = re.compile(r"(<pre\b.*?</pre>)|<code>([^<]*-[^<]*)</code>", re.DOTALL)
WORD = re.compile(r"\S*-\S*")
LONGEST = 30


def on_page_content(content, **_):
    def word(match):
        return f'<span class="word">{match[0]}</span>' if len(match[0]) <= LONGEST else match[0]

    def code(match):
        return match[1] or f"<code>{WORD.sub(word, match[2])}</code>"

    return CODE.sub(code, content)
