"""Deployment: predictions line by line from a stream, and exports as programs that run without this package."""

from . import export as export
