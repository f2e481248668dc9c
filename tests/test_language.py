"""Plain English in docstrings, messages and pages: no riddles, no translated phrases, short sentences in errors (docs/writing.md)."""

import ast
import pathlib
import re

import pytest

import lrcssm

SOURCE = pathlib.Path(lrcssm.__file__).parent.parent
ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    if page.name not in ("writing.md", "changelog.md", "results.md")  # examples of bad style, and generated pages
]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))
LONGEST = 40

BANNED = {
    r"(?<!here )\bis no (?!longer|more|less|such|need|faster|slower|better|worse|smaller|larger)[a-z]": "write 'is not a'",
    r"\banew\b": "write 'again' or 'from scratch'",
    r"\bin the place of\b": "write 'instead of' or 'in place of'",
    r"\b(was|is|are|be) asked\b": "name the call or the argument",
    r"\bheed(s|ed)?\b": "write 'follow' or 'respect'",
    r"\b(file|folder|cell|data|cases?|code|program)s? of (yours|ours|somebody|someone)\b": "write 'your own'",
    r"\bbehind your back\b|\bmakes? up .* mind\b": "objects have no mind",
    r"\bwhat (is|are) no\b": "name the thing with a noun",
    r"\bgo(es|ne)? on (with|from)\b|\bgoing on (with|from)\b": "write 'continue' or 'resume'",
    r"\bletters and digits that\b": "write 'a checksum'",
    r"\bat the seams?\b|\bseams\b": "write 'shard boundary'",
    r"\btold apart\b|\btells? (\w+ )?apart\b": "write 'distinguish'",
    r"\b(whoever|whatever becomes|no matter what)\b": "write a main clause",
    r"\bsays (so|more)\b": "name the place: 'run … --help'",
    r"\boff whose\b|\bof whom\b": "write a main clause",
    r"\btakes? (a )?notes?\b": "write 'record'",
    r"\bcomputed? (a second time|again)\b": "write 'recompute'",
}


def words(text):
    return re.findall(r"[^\s]+", text)


def message(node):
    """The text of an expression, with `x` for every part that is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
    if isinstance(node, ast.BinOp):
        return message(node.left) + message(node.right)
    return ""


def modules():
    return sorted(path for package in ("lrcssm", "lrcssm_paper") for path in (SOURCE / package).rglob("*.py"))


def texts(path):
    """Docstrings, attribute documentation and messages of a module, with their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, message(node)


def errors(path):
    """Messages of raise statements, with their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from ((node.lineno, text) for text in map(message, node.exc.args) if text)


def findings(text):
    flat = re.sub(r"\s+", " ", text)
    return [f"{match[0]!r}: {advice}" for phrase, advice in BANNED.items() for match in re.finditer(phrase, flat)]


def without_code(text):
    return re.sub(r"^ *```.*?^ *```|<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_messages_and_docstrings_avoid_banned_phrases():
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {found}"
        for path in modules()
        for line, text in texts(path)
        for found in findings(text)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in [*PAGES, *TUTORIALS]])
def test_pages_avoid_banned_phrases(page):
    text = page.read_text()
    if page.suffix == ".py":
        text = "\n".join(re.findall(r"^# (.*)$", text, re.MULTILINE))
    assert not findings(without_code(text))


def test_sentences_of_errors_are_short():
    wrong = []
    for path in modules():
        for line, text in errors(path):
            for sentence in re.split(r"(?<=[.:;!?])\s", text):
                if len(words(sentence)) > LONGEST or len(words(text)) > 2 * LONGEST:
                    wrong.append(f"{path.relative_to(SOURCE)}:{line}: {len(words(sentence))} words: {sentence}")
    assert not wrong, "\n".join(wrong)


def test_the_linter_finds_bad_style():
    for text in (
        "That is no data set.", "Start anew.", "A model was asked for 3 streams.", "x --help says more.",
        "Makes up Auto's mind.", "letters and digits that are others for other data", "It goes on from the last checkpoint.",
    ):  # fmt: skip
        assert findings(text.replace("Makes", "makes")), text
    assert not findings("It is no longer needed; there is no case; continue from the last checkpoint.")
