"""A mkdocs hook against bad line breaks: inside options such as --help, and between a number and its per cent sign."""

import re

# Code blocks, which are skipped, inline code with hyphens, and per cent signs.
PLACES = re.compile(r"(<pre\b.*?</pre>)|<code>([^<]*-[^<]*)</code>|(?<=\d)( )(?=%)", re.DOTALL)
WORD = re.compile(r"\S*-\S*")
LONGEST = 30


def on_page_content(content, **_):
    def word(match):
        return f'<span class="word">{match[0]}</span>' if len(match[0]) <= LONGEST else match[0]

    def place(match):
        block, code, space = match.groups()
        return block or (
            f"<code>{WORD.sub(word, code)}</code>" if code else "\N{NO-BREAK SPACE}" if space else match[0]
        )

    return PLACES.sub(place, content)
