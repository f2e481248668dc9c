"""Deployment: predictions from a stream of lines, and export of models as programs that run without this package."""

from . import export as export
