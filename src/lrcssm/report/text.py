"""Preparation of user text, such as names of classes, channels and files, for pictures."""

LONGEST = 40


def plain(text: object, longest: int = LONGEST) -> str:
    """Prepare text for matplotlib: on one line, without mathematics, and cut if it is long.

    ```python
    from lrcssm.report.text import plain

    print(plain("a$x^$b"), plain("one\\ntwo"), plain("x" * 50, 8))  # a\\$x^\\$b one two xxxxxxx…
    ```

    **Arguments:**

    - `text`: any text. Dollar signs are escaped, because they start formulas, and control characters, which SVG does not allow,
        are replaced.
    - `longest`: most characters.
    """
    words = " ".join(str(text).split())
    shown = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in words)
    return (shown if len(shown) <= longest else shown[: longest - 1] + "…").replace("$", r"\$")


def listed(names: list[str], most: int = 3) -> str:
    """Names as words: `a`, `a and b`, `a, b and 4 more`."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} more"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else "none"
