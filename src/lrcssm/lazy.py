"""Lazy imports: names of a package that are imported at their first use."""

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any


def lazily(
    package: str, where: Mapping[str, str | None], public: Collection[str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a package.

    **Arguments:**

    - `package`: its `__name__`.
    - `where`: module of each name, within the package; `None` for a name that is itself a module.
    - `public`: names that `dir` shows; those of `where` if not given.
    """

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{where[name] or name}", package)
        return module if where[name] is None else getattr(module, name)

    def names() -> list[str]:
        return sorted(where if public is None else public)

    return find, names
