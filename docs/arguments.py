"""An extension of griffe: estimators document their parameters when they are imported, and the site shows that."""

import inspect
from typing import Any

import griffe


class Arguments(griffe.Extension):
    """Replace docstrings with a placeholder by those of the imported class."""

    def on_class_instance(self, *, cls: Any, **_: Any) -> None:
        """Look at a class that was found in the source."""
        if cls.docstring is not None and "{arguments}" in cls.docstring.value:
            cls.docstring.value = inspect.getdoc(griffe.dynamic_import(cls.path))
