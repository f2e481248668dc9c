"""Time of one sample of a stream: `Stream.push`, and the exported step in onnxruntime where that is installed."""

import importlib.util
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lrcssm.machine import environment
from lrcssm.models import ModelConfig, SequenceModel
from lrcssm.report.table import doubts, number, print_table

from ..published import SIZES, published, short_name
from . import StreamBenchmark
from .record import make_record


def measure(options: StreamBenchmark) -> dict[str, Any]:
    """Measure the stream, and its exported step where onnxruntime is installed.

    **Returns:**

    A record for JSON, with times in microseconds for one sample of all streams.
    """
    if not options.threads:
        # Before the first array: on a CPU a step takes less time than to hand it to another thread.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    where = environment("onnxruntime")
    fields = published("lrcssm", options.dataset).model
    size = SIZES[short_name(options.dataset)]
    config = ModelConfig(input_dim=size.channels, output_dim=size.classes, **fields)
    model = SequenceModel(config, jax.random.key(0))
    samples = np.random.default_rng(0).normal(size=(max(options.streams), size.channels)).astype(np.float32)
    calls: dict[tuple[str, int], Callable[[], Any]] = {}
    for count in options.streams:
        stream = model.stream(None if count == 1 else count)
        given = samples[0] if count == 1 else samples[:count]
        calls["push", count] = lambda stream=stream, given=given: stream.push(given)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        calls |= _onnx(model, samples[:1])
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(options.rounds):
        for (kind, count), call in calls.items():
            for _ in range(max(10, options.steps // count)):
                begin = time.perf_counter()
                call()
                times[kind, count].append(time.perf_counter() - begin)
    rows = [
        {
            "program": kind,
            "streams": count,
            "best_us": 1e6 * min(taken),
            "median_us": 1e6 * float(np.median(taken)),
            "p99_us": 1e6 * float(np.quantile(taken, 0.99)),
        }
        for (kind, count), taken in times.items()
    ]
    return make_record("stream", options, where, rows)


def _onnx(model: SequenceModel, sample: np.ndarray) -> dict[tuple[str, int], Callable[[], Any]]:
    """The step as a plain call of a session, and with its inputs and outputs bound."""
    from lrcssm.deploy.export.onnx import open_session, to_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.onnx"
        to_onnx(path, model, what="step")
        session = open_session(path.read_bytes())
    state = np.zeros(session.get_inputs()[1].shape, np.float32)
    given = {"sample": sample, "state": state, "begin": np.array([False])}
    bound = session.io_binding()
    for name, array in given.items():
        bound.bind_cpu_input(name, array)
    for output in session.get_outputs():
        bound.bind_output(output.name)
    names = [output.name for output in session.get_outputs()]  # None would look them up each time
    return {
        ("onnx", 1): lambda: session.run(names, given),
        ("onnx, bound", 1): lambda: session.run_with_iobinding(bound),
    }


def show(record: dict[str, Any]) -> None:
    """Print a record as a table."""
    print_table(
        ["program<", "streams", "best, µs", "median, µs", "99 %, µs"],
        [
            [row["program"], str(row["streams"]), *(number(row[f"{kind}_us"]) for kind in ("best", "median", "p99"))]
            for row in record["rows"]
        ],
        title=f"One sample for each stream, {record['options']['dataset']} model",
        notes=[record["command"], *doubts(record["environment"], ())],
    )
