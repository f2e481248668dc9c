"""Commands as dataclasses: fields are options, docstrings their help, and the method `run` does the work.

Types: `str`, `int`, `float`, `bool` (a flag), `Literal`, `X | None`, `tuple[X, ...]`, and another dataclass, whose fields
become a group of options. `Annotated[X, Arg("METAVAR")]` names the value in the help, and `positional=True` drops the dashes.
"""

import argparse
import dataclasses
import difflib
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

from ..errors import LrcssmError
from ..options import Option, convert, element, options_of, plain


class UsageError(LrcssmError):
    """Invalid command-line arguments."""


@dataclasses.dataclass(frozen=True)
class Arg:
    """Presentation of an option.

    **Arguments:**

    - `metavar`: placeholder of the value in the help.
    - `positional`: given without `--name`.
    - `default`: description of the default in the help, if the field's own is not informative.
    """

    metavar: str | None = None
    positional: bool = False
    default: str | None = None


def parse(command: Any, words: Sequence[str], prog: str) -> Any | None:
    """Parse words into a command.

    **Arguments:**

    - `command`: a dataclass.
    - `words`: after the name of the command.
    - `prog`: the name of the command, for the help.

    **Returns:**

    An instance of `command`, or `None` if help was requested and printed. Raises `UsageError`.
    """
    parser = _Parser(
        prog=prog, usage=_usage(command, prog), description=command.__doc__, add_help=False, allow_abbrev=False
    )
    parser.add_argument("-h", "--help", action="store_true", help="Show this help.")
    _add(parser, parser, command)
    if {"-h", "--help"} & set(words):
        parser.print_help()
        return None
    found, unknown = parser.parse_known_args(list(words))
    if unknown:
        parser.refuse(unknown[0])
    return _make(command, vars(found))


def _usage(command: Any, prog: str) -> str:
    words = [prog]
    for option in options_of(command).values():
        _, arg = _plain(option.kind)
        if arg.positional:
            name = arg.metavar or option.name.upper()
            words.append(name if option.default is dataclasses.MISSING else f"[{name}]")
    return " ".join([*words, "[options]"])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        message = message.replace("expected one argument", "got no value; give one")
        message = message.replace("expected at least one argument", "got no value; give at least one")
        if message.startswith("argument "):
            message = message.removeprefix("argument ").replace(": ", " ", 1)
        elif message.startswith("the following arguments are required: "):
            message = f"{message.rpartition(': ')[2]} is missing; give it"
        raise UsageError(f"{message.rstrip('.')}; run {self.prog} --help.")

    def refuse(self, word: str) -> NoReturn:
        """Raise `UsageError` for a word that is not an option."""
        known = [name for action in self._actions for name in action.option_strings]
        close = difflib.get_close_matches(word.partition("=")[0], known, 1)
        self.error(f"there is no option {word!r}" + (f"; perhaps you meant {close[0]}" if close else ""))


def _add(root: argparse.ArgumentParser, parser: Any, command: Any) -> None:
    for option in options_of(command).values():
        kind, arg = _plain(option.kind)
        if dataclasses.is_dataclass(kind):
            doc = (kind.__doc__ or "").strip().partition("\n")
            _add(root, root.add_argument_group(doc[0].rstrip(".")), kind)
            continue
        how: dict[str, Any] = {"help": _help(option, arg).replace("%", "%%"), "dest": option.name}
        names = [flag(option.name)]
        if arg.positional:
            names = []
        inner, many = element(kind)
        if inner is bool and option.default is False:
            parser.add_argument(*names, action="store_true", default=False, **how)
            continue
        how |= {"type": _converter(inner), "metavar": arg.metavar or _metavar(inner, option.name)}
        if option.default is dataclasses.MISSING:
            how |= {"nargs": "+"} if many else {} if arg.positional else {"required": True}
        else:
            how |= {"default": option.default} | ({"nargs": "*"} if many else {"nargs": "?"} if arg.positional else {})
        parser.add_argument(*names, **how)


def _make(command: Any, found: dict[str, Any]) -> Any:
    given = {}
    for option in options_of(command).values():
        kind, _ = _plain(option.kind)
        if dataclasses.is_dataclass(kind):
            given[option.name] = _make(kind, found)
        else:
            value = found[option.name]
            given[option.name] = tuple(value) if isinstance(value, list) else value
    return command(**given)


def flag(name: str) -> str:
    """Spelling of a field on the command line."""
    return f"--{name.replace('_', '-')}"


def _plain(kind: Any) -> tuple[Any, Arg]:
    """A type without annotations and `None`, and its presentation."""
    more = typing.get_args(kind)[1:] if typing.get_origin(kind) is typing.Annotated else ()
    return plain(kind), next((one for one in more if isinstance(one, Arg)), Arg())


def _converter(kind: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return convert(kind, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _metavar(kind: Any, name: str) -> str:
    if typing.get_origin(kind) is Literal:
        return "|".join(map(str, typing.get_args(kind)))
    if kind is bool:
        return "yes|no"
    return {int: "INT", float: "FLOAT"}.get(kind, name.upper())


def _help(option: Option, arg: Arg) -> str:
    default = arg.default
    if default is None and option.default not in (dataclasses.MISSING, None, False, ()):
        value = option.default
        default = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return option.plain + (f" (default: {default})" if default else "")
