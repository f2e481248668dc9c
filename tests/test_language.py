"""Plain English in docstrings, messages and pages: no riddles, no translated phrases, short sentences in errors (docs/writing.md)."""

import ast
import functools
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
TRANSLATED = {
    r"\bsays? (how|which|why|where|otherwise|nothing|little|whether|if|when)\b": "objects do not speak: 'states', 'names', 'lists'",
    r"\b(its|their|whose) (text|message) says\b": "write 'the message is the reason'",
    r"\btells? (how|what|which|why|nothing|something|little|if|whether|about)\b|\b\w+ tells\b(?= *[.;:])": "write 'shows' or 'indicates'",
    r"\btells? (something|nothing|anything) new\b|\b(say|says|brings?) (something|nothing) new\b": "write 'redundant' or 'informative'",
    r"\bsp(eak|oke|eaks) (for|against) (a|the|each)\b": "write 'contributes to'",
    r"\b[Ss]tatistics of no\b|\bof no (step|case|series|unit|channel)\b": "write 'without'",
    r"\b[Ww]hat (comes|came) (next|after|before)\b": "write 'the next values' or 'the earlier steps'",
    r"\b(as|from|on|of|to|with|for|by|in|sees|learns|keeps) what (follows|followed|came|comes|remains|is left|was left|there is)\b": "use a noun",
    r"\bas JSON (can )?(holds?|keeps?) (it|them)\b": "write 'as JSON values'",
    r"\b(takes?|taken|took|left|leaves?|stays?|works?) as (it|they) (is|are|was|were)\b|\b(is|are) as (it|they) (was|were)\b": "write 'directly' or 'unchanged'",
    r"\b(page|folder|section|process|row|column|target|label|synapse|file|line) of (its|their|one's) own\b": "write 'its own …'",
    r"\bgo(es)? on\b|\bgoing on\b": "write 'continue'",
    r"\bgiven up\b|\bgives? (it|them|a \w+) up\b": "write 'stopped' or 'abandoned'",
    r"\bmend(s|ed)?\b": "write 'fix'",
    r"\bbeside\b": "write 'next to'",
    r"\bstands? (in|under|before|where|there|at|beside)\b": "write 'is'",
    r"\bin (their|its) places\b|\bfor ever\b|\bat once or not at all\b|\bagain and again\b": "write 'in order', 'without limit', 'atomically', 'repeatedly'",
    r"\bflatters?\b|\bbelieves?\b|\bwants? (it|them|to write)\b|\bdoes not mind\b|\bis at it\b": "objects have no mind",
    r"\bfurthest off\b": "write 'with the largest errors'",
    r"\bas if (it|they) were not there\b": "write 'is ignored'",
    r"\bnext to nothing\b|\bas good as nothing\b": "write 'almost nothing'",
    r"\bin small letters\b": "write 'in lower case'",
}
ALL = BANNED | TRANSLATED
FIRST_WORDS = (
    "What",
    "Whether",
    "How",
    "Who",
    "Whose",
    "Whom",
    "Where",
    "Those",
    "Which",
    "Nobody",
    "Nothing",
    "Whatever",
)


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


def programs():
    """Tests, and programs of the documentation."""
    return sorted(path for folder in ("tests", "examples", "docs") for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


def texts(path):
    """Docstrings, attribute documentation and messages of a module, with their lines."""
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, message(node)


def errors(path):
    """Messages of raise statements, with their lines."""
    for node in nodes(path):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from ((node.lineno, text) for text in map(message, node.exc.args) if text)


def docstrings(path):
    """Docstrings of a module, its classes and its functions, with their lines."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def findings(text, phrases=ALL):
    flat = re.sub(r"\s+", " ", text)
    return [f"{match[0]!r}: {advice}" for phrase, advice in phrases.items() for match in re.finditer(phrase, flat)]


def without_code(text):
    return re.sub(r"^ *```.*?^ *```|<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL | re.MULTILINE)


def avoid_banned_phrases(paths, read):
    wrong = [f"{path}:{line}: {found}" for path in paths for line, text in read(path) for found in findings(text)]
    assert not wrong, "\n".join(wrong)


def test_messages_and_docstrings_avoid_banned_phrases():
    avoid_banned_phrases(modules(), texts)


def test_docstrings_begin_with_a_verb_or_a_noun():
    wrong = [
        f"{path.name}:{line}: {text.splitlines()[0]}"
        for path in [*modules(), *programs()]
        for line, text in docstrings(path)
        if text.split()[0] in FIRST_WORDS or (text.startswith("Of ") and SOURCE in path.parents)
    ]
    assert not wrong, "\n".join(wrong)


def test_docstrings_of_tests_and_programs_avoid_banned_phrases():
    avoid_banned_phrases(programs(), docstrings)


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
    for text in (
        "all that tell something new", "Statistics of no step.", "What comes next, with an interval", "a table tells.",
        "columns whose values stand in rows at the end of the table", "a view that says nothing new", "its text says why",
        "The third sensor tells nothing.", "The result as JSON holds it.", "The tables are taken as they are.",
        "The stream goes on.", "This trial is given up.", "Cases that are furthest off", "what spoke for a class",
        "The test score will flatter.", "The file is written at once or not at all.", "Padding is as if it were not there.",
        "Forecasts by fits on what came before.", "The index is beside the file.", "They have a page of their own.",
    ):  # fmt: skip
        assert findings(text.replace("What", "what")), text
    for text in (
        "It is no longer needed; there is no case; continue from the last checkpoint.",
        "The symbol x stands for the state. The message names the file. Each device has its own part of time.",
        "What is an iteration? See what a step costs, besides the matrix products. Run all commands at once.",
    ):
        assert not findings(text), text
