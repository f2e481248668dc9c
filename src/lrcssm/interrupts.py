"""Ctrl-C while compiled code runs."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def heeding_interrupts() -> Iterator[list[bool]]:
    """Yield a list that receives an entry on Ctrl-C. An exception raised in a callback from compiled code may be lost."""
    pressed: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed  # only the main thread may have a handler
        return

    def handle(number, frame):
        pressed.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
