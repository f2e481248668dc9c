"""Sketches of series: a few lines of text, or a picture."""

import pathlib

import numpy as np

from ..data import Dataset
from .text import plain

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the braille patterns of Unicode, from 0x2800 on: four rows of two dots."""


def sketch(values: np.ndarray, times: np.ndarray | None = None, *, width: int = 60, height: int = 2) -> list[str]:
    """Draw a series in dots of braille.

    ```python
    import numpy as np
    from lrcssm.report.sketch import sketch

    print("\\n".join(sketch(np.sin(np.linspace(0, 12, 500)))))
    ```

    **Arguments:**

    - `values`: one channel, `(time,)`; NaN leaves a gap.
    - `times`: time of each value, if not at equal steps.
    - `width`, `height`: in characters, each of 2 by 4 dots.

    **Returns:**

    The lines.
    """
    columns, rows = 2 * width, 4 * height
    if times is None:
        times = np.arange(len(values))
    seen = np.isfinite(values)
    grid = np.zeros((rows, columns), bool)
    if seen.any():
        span = max(float(times[-1] - times[0]), 1e-300)
        place = (times - times[0]) / span * (columns - 1)
        x, y = np.rint(place).astype(int), values[seen].astype(np.float64)
        low, high = float(y.min()), float(y.max())
        level = np.full(len(values), np.nan)
        level[seen] = (rows - 1) * ((high - y) / (high - low) if high > low else 0.5)
        # In each column a line from the lowest to the highest, joined to where the last column ended; between steps that
        # are further apart a straight one, but none across a missing value.
        straight = np.interp(np.arange(columns), place, level)
        last = None
        for column in range(columns):
            here = level[np.searchsorted(x, column) : np.searchsorted(x, column, side="right")]
            here = here if len(here) else straight[column : column + 1]
            here = np.rint(here[np.isfinite(here)]).astype(int)
            if len(here):
                ends = here if last is None else [*here, last]
                grid[min(ends) : max(ends) + 1, column] = True
            last = here[-1] if len(here) else None
    lines = []
    for row in range(0, rows, 4):
        cells = grid[row : row + 4].reshape(4, width, 2)
        codes = sum(np.where(cells[i, :, j], _DOTS[i][j], 0) for i in range(4) for j in range(2))
        lines.append("".join(chr(0x2800 + int(code)) for code in np.asarray(codes)))
    return lines


def examples(dataset: Dataset, most: int = 12, each: int = 1) -> list[tuple[str, list[int]]]:
    """Choose cases, with names: the first ones of each class, or those with the smallest, median and largest target."""
    if dataset.classes is not None and isinstance(dataset.targets, np.ndarray):
        rows = [(name, np.flatnonzero(dataset.targets == i)[:each]) for i, name in enumerate(dataset.classes[:most])]
        return [(name, which.tolist()) for name, which in rows if len(which)]
    if not isinstance(dataset.targets, np.ndarray) or not len(dataset):
        return [("", list(range(min(len(dataset), 3 * each))))]
    first = dataset.targets.reshape(len(dataset), -1)[:, 0]
    order = np.argsort(first, kind="stable")
    middle = len(order) // 2
    thirds = (order[:each], order[middle : middle + each], order[-each:])
    return [(f"{first[which[0]]:.4g}", which.tolist()) for which in thirds[: len(order)]]


def shown_channel(dataset: Dataset) -> int:
    """Find the first channel that varies within the first cases."""
    few = dataset.series[:20]
    for channel in range(few[0].shape[1]):
        if any(np.nanmin(one[:, channel]) < np.nanmax(one[:, channel]) for one in few if not _empty(one[:, channel])):
            return channel
    return 0


def _empty(values: np.ndarray) -> bool:
    return bool(np.isnan(values).all())


def draw(dataset: Dataset, path: str | pathlib.Path, *, each: int = 3, rows: int = 10, columns: int = 4) -> None:
    """Draw a picture: a row for each class, a column for each channel, some series in each; one row with the target as
    colour if there are no classes.

    **Arguments:**

    - `dataset`: the data set.
    - `path`: the file; .png, .svg or .pdf.
    - `each`, `rows`, `columns`: most series, classes and channels.
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    channels = min(dataset.series[0].shape[1], columns)
    names = dataset.channel_names or tuple(f"channel {i}" for i in range(dataset.series[0].shape[1]))
    first, scale = None, None
    if dataset.task == "regress" and isinstance(dataset.targets, np.ndarray):
        first = dataset.targets.reshape(len(dataset), -1)[:, 0]
        order = np.argsort(first, kind="stable")
        groups = [("", order[np.linspace(0, len(order) - 1, min(each + 1, len(order))).astype(int)].tolist())]
        scale = ScalarMappable(Normalize(float(first.min()), float(first.max())), colormaps["viridis"])
    else:
        groups = examples(dataset, rows, each)
    figure = Figure(figsize=(3 + 3 * channels, 1.3 + 1.2 * len(groups)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(groups), channels, squeeze=False, sharex=True, sharey="col")
    for i, (label, which) in enumerate(groups):
        for channel in range(channels):
            for case in which:
                values = dataset.series[case][:, channel]
                times = np.arange(len(values)) if dataset.times is None else dataset.times[case]
                colour = colormaps["tab10"](i % 10) if scale is None or first is None else scale.to_rgba(first[case])
                style = {"marker": ".", "markersize": 2} if dataset.times is not None else {}
                axes[i, channel].plot(times, values, color=colour, linewidth=0.8, alpha=0.75, **style)
            axes[i, channel].tick_params(labelsize=8)
            if i == 0:
                axes[i, channel].set_title(plain(names[channel]), fontsize=9)
        if label:
            axes[i, 0].set_ylabel(plain(label), fontsize=9)
    for below in axes[-1]:
        below.set_xlabel("step" if dataset.times is None else "time", fontsize=8)
    if scale is not None:
        figure.colorbar(scale, ax=axes.ravel().tolist(), label="target")
    figure.suptitle(plain(_title(dataset, len(groups), channels)), fontsize=10)
    figure.savefig(path)


def _title(dataset: Dataset, shown: int, channels: int) -> str:
    title = dataset.name
    if dataset.classes is not None and shown < len(dataset.classes):
        title += f", {shown} of {len(dataset.classes)} classes"
    if channels < dataset.series[0].shape[1]:
        title += f", {channels} of {dataset.series[0].shape[1]} channels"
    return title
