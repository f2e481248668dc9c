"""Names of a package that are imported when they are first asked for."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, where: Mapping[str, str | None]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    **Arguments:**

    - `package`: its `__name__`.
    - `where`: the module of each name, within the package; `None` for a name that is itself a module.
    """

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{where[name] or name}", package)
        return module if where[name] is None else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return find, names
