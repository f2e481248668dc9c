"""Options declared once, as fields of a dataclass with a docstring below each.

The command line, the estimators and their documentation are generated from these declarations.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Option:
    """One option.

    **Attributes:**

    - `name`, `kind`, `default`: of the field; `kind` is its type, and `default` is `dataclasses.MISSING` if it has none.
    - `text`: its docstring as one paragraph of Markdown.
    """

    name: str
    kind: Any
    default: Any
    text: str

    @property
    def plain(self) -> str:
        """The docstring without Markdown, for a terminal."""
        return self.text.replace("`", "")


@functools.cache
def options_of(kind: Any) -> dict[str, Option]:
    """Options of a dataclass, in the order of its fields.

    ```python
    import lrcssm
    from lrcssm.options import options_of

    print(options_of(lrcssm.ModelConfig)["hidden_dim"].text)  # Features between the blocks.
    ```

    **Arguments:**

    - `kind`: a dataclass; fields of its bases are included.
    """
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            texts |= getattr(base, "__field_docs__", None) or _docstrings(base)
    kinds = typing.get_type_hints(kind, include_extras=True)  # none where types are not to be checked
    return {
        field.name: Option(field.name, kinds.get(field.name, field.type), _default(field), texts.get(field.name, ""))
        for field in dataclasses.fields(kind)
    }


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _docstrings(kind: Any) -> dict[str, str]:
    """Docstrings below the fields of a class, from its source; none if that is not available."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body, found = tree.body[0].body, {}  # pyright: ignore[reportAttributeAccessIssue]
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = re.sub(r"\s+", " ", text.value.value).strip()
    return found


def as_arguments(options: Iterable[Option]) -> str:
    """The **Arguments** section of a docstring."""
    return "**Arguments:**\n\n" + "\n".join(f"- `{option.name}`: {option.text}" for option in options)


def plain(kind: Any) -> Any:
    """A type without annotations and `None`; for several types, the most general one. A pair of a type and words means either."""
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    rest = [one for one in typing.get_args(kind) if one is not type(None)]
    literals = [value for one in rest if typing.get_origin(one) is Literal for value in typing.get_args(one)]
    if len(rest) > 1 and str in rest:
        return str
    return (int, tuple(literals)) if len(rest) > 1 and literals and int in rest else plain(rest[0])


def element(kind: Any) -> tuple[Any, bool]:
    """The type of one word, and whether there may be several."""
    many = typing.get_origin(kind) is tuple
    return (plain(typing.get_args(kind)[0]), True) if many else (kind, False)


def convert(kind: Any, text: str) -> Any:
    """Read one word as a value of an option's type; raises `ValueError` with a phrase such as "got 'x'; give a number"."""
    kind = element(kind if isinstance(kind, tuple) else plain(kind))[0]
    words: tuple[Any, ...] = ()
    if typing.get_origin(kind) is Literal:
        words, kind = typing.get_args(kind), None
    elif kind is bool:
        words, kind = ("yes", "no"), None
        if text in words:
            return text == "yes"
    elif isinstance(kind, tuple):
        kind, words = kind
    if text in words:
        return text
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            words = ("a whole number" if kind is int else "a number", *words)
    elif kind is not None:
        return text
    *rest, last = map(str, words)
    raise ValueError(f"got {text!r}; give " + (f"{', '.join(rest)} or {last}" if rest else last))
