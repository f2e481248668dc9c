"""Streams: a model that takes one sample at a time and keeps its state."""

import copy
import json
import os
import zlib
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import InvalidValue


@runtime_checkable
class Steps(Protocol):
    """A model that takes one sample at a time, as `SequenceModel` and the step of a ridge model do."""

    @property
    def config(self) -> Any: ...
    @property
    def dtype(self) -> np.dtype: ...
    def check_steps(self) -> None: ...
    def first_state(self) -> Any: ...
    def step(self, sample: Any, state: Any, *, dt: Any = None) -> tuple[Array, Any]: ...
    def skip(self, state: Any) -> Any: ...


class Stream:
    """A model with its state: one sample in, one output out. `model.stream()` makes one, `model.stream(count)` many at once,
    each at its own position; so do `stream` of a `lrcssm.training.Trained` and of an estimator.

    ```python
    import jax, lrcssm, numpy as np

    config = lrcssm.ModelConfig(input_dim=6, output_dim=2, hidden_dim=16, state_dim=16, num_blocks=2)
    model = lrcssm.SequenceModel(config, jax.random.key(0))
    stream = model.stream()
    for sample in np.random.normal(size=(5, 6)):
        logits = stream.push(sample)
    print(stream.probabilities)  # of the classes, from all samples so far

    streams = model.stream(1000)
    streams.push(np.random.normal(size=(2, 6)), which=[3, 14]) # the others do not advance
    print(streams.steps[3], streams.steps[4])  # 1 0
    ```

    The outputs are those of `SequenceModel.step`. The first `push` of each kind compiles; for that the number of streams in
    `which` is rounded up to a power of 2. A stream keeps the model that it was made with.
    """

    def __init__(self, model: Steps, count: int | None = None):
        model.check_steps()
        if count is not None and (not isinstance(count, int) or count < 1):
            raise InvalidValue(f"stream got count={count!r}; give a whole number of at least 1, or None.")
        self.model, self.count = model, count
        self._dtype = model.dtype
        self._packing = Packing(model.first_state())
        self._axes = () if count is None else (count,)
        self._shape = (*self._axes, model.config.input_dim)
        self._programs: dict[str, Any] = {}
        self.reset()

    def another(self) -> "Stream":
        """Make a new stream of the same model, at its start, without compiling again."""
        new = copy.copy(self)
        new.reset()
        return new

    def push(self, sample: Any, dt: Any = None, *, which: Any = None) -> np.ndarray:
        """Take one more sample, and return the output after it.

        **Arguments:**

        - `sample`: `(channels,)`; of many streams `(count, channels)`, or one row for each of `which`.
        - `dt`: time of the step, or one for each row; 1 if not given.
        - `which`: numbers of the streams that take a sample; all if not given.

        **Returns:**

        `(outputs,)`, or one row for each row of `sample`. After an error the stream is unchanged.
        """
        rows = self._rows(which)
        sample = np.asarray(sample, self._dtype)
        wanted = self._shape if rows is None else (len(rows), self._shape[-1])
        if sample.shape != wanted:
            raise InvalidValue(f"The stream got a sample of shape {sample.shape}; expected {wanted}.")
        if not np.isfinite(sample).all():
            raise InvalidValue("The stream got a sample that is not finite; leave the step out, or fill in the value.")
        if dt is not None:
            dt = self._time(dt, sample.shape[:-1])
        if rows is None:
            output, self._state = self._program("all")(self._state, sample, dt)
            self._output = np.asarray(output)
            self._steps += 1
            return self._output
        if not len(rows):
            return np.zeros((0, self.model.config.output_dim), self._dtype)
        sample = np.concatenate([sample, np.zeros((_more(rows), sample.shape[1]), sample.dtype)])
        dt = None if dt is None else np.concatenate([dt, np.ones(_more(rows), dt.dtype)])
        output, self._state = self._program("some")(self._state, sample, dt, self._places(rows))
        output = np.asarray(output)[: len(rows)]
        self._output = np.array(self._output)
        self._output[rows] = output
        self._steps[rows] += 1
        return output

    def skip(self, *, which: Any = None) -> None:
        """Skip a step with a missing sample, in the streams of `which`, or all. Add its time to the `dt` of the next sample;
        the outputs do not change."""
        rows = self._rows(which)
        if rows is None:
            self._state = self._program("skipped")(self._state)
        elif len(rows):
            self._state = self._program("some_skipped")(self._state, self._places(rows))

    @property
    def outputs(self) -> np.ndarray:
        """Last output of each stream; NaN where there is none yet."""
        return np.array(self._output)

    @property
    def probabilities(self) -> np.ndarray:
        """Probability of each class, from all samples so far (of `task="per-step"`, at the last one)."""
        if self.model.config.task not in ("classify", "per-step"):
            raise InvalidValue(
                f'The model has task="{self.model.config.task}", so its outputs are not classes; read outputs instead.'
            )
        logits = np.asarray(self._output, np.float64)
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True)

    @property
    def steps(self) -> np.ndarray:
        """Number of samples that each stream has taken."""
        return np.array(self._steps)

    @property
    def state(self) -> Any:
        """Copy of the state, with the streams on the first axis, for `step` of the model (under `jax.vmap` if there are
        many)."""
        return jax.tree.map(jnp.array, self._packing.unpack(self._state))

    @property
    def nbytes(self) -> int:
        """Bytes in the states of all streams."""
        return sum(array.nbytes for array in self._state)

    def reset(self, which: Any = None) -> None:
        """Return streams to their start: those of `which`, or all."""
        rows = self._rows(which)
        if rows is None:
            first = self._packing.pack(self.model.first_state())
            self._state = tuple(jnp.array(jnp.broadcast_to(part, (*self._axes, *part.shape))) for part in first)
            self._output = np.full((*self._axes, self.model.config.output_dim), np.nan, self._dtype)
            self._steps = np.zeros(self._axes, np.int64)
            return
        if not len(rows):
            return
        self._state = self._program("restarted")(self._state, self._places(rows))
        self._output = np.array(self._output)
        self._output[rows], self._steps[rows] = np.nan, 0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file atomically; the model is not included."""
        from ..files import named_leaves, write_arrays

        arrays = named_leaves(self._packing.unpack(self._state))
        write_arrays(
            path,
            {"kind": "stream", "count": self.count, "model": _fingerprint(self.model)},
            {name: np.asarray(array) for name, array in arrays.items()}
            | {"outputs": self._output, "steps": np.asarray(self._steps)},
        )

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Restore a state written by `save`, with the same model and number of streams."""
        from ..files import FileError, named_leaves, read_arrays

        header, arrays = read_arrays(path, kind="stream")
        if header.get("model") != _fingerprint(self.model):
            raise FileError(f"{path} holds the state of another model; restore it with the model that wrote it.")
        if header.get("count") != self.count:
            raise FileError(
                f"{path} holds {header.get('count')} streams, not {self.count}; restore it into as many as it holds."
            )
        state = self._packing.unpack(self._state)
        wanted = named_leaves(state) | {"outputs": self._output, "steps": np.asarray(self._steps)}
        given = {name: (array.shape, array.dtype.name) for name, array in arrays.items()}
        if given != {name: (array.shape, array.dtype.name) for name, array in wanted.items()}:
            raise FileError(f"{path} does not hold the state of a stream of this model.")
        leaves = [jnp.asarray(arrays[name]) for name in named_leaves(state)]
        # Copies, since the next push donates them.
        packed = self._packing.pack(jax.tree.unflatten(jax.tree.structure(state), leaves))
        self._state = tuple(map(jnp.array, packed))
        self._output, self._steps = arrays["outputs"], arrays["steps"]

    def _rows(self, which) -> np.ndarray | None:
        if which is None:
            return None
        if self.count is None:
            raise InvalidValue("The stream got which=, but there is only one; model.stream(count) makes many.")
        rows = np.asarray(which)
        if rows.size == 0:
            return np.zeros(0, np.int32)
        if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
            raise InvalidValue(f"The stream got which={which!r}; give a list of whole numbers, one for each sample.")
        if rows.min() < 0 or rows.max() >= self.count:
            raise InvalidValue(f"The stream got which={which!r}; give numbers from 0 to {self.count - 1}.")
        if len(np.unique(rows)) < len(rows):
            raise InvalidValue(f"The stream got which={which!r}; each stream takes one sample at a time.")
        return rows.astype(np.int32)

    def _time(self, dt, shape) -> np.ndarray:
        given = np.asarray(dt, self._dtype)
        if given.shape not in ((), shape):
            raise InvalidValue(f"The stream got dt of shape {given.shape}; expected a scalar or {shape}.")
        if not (np.isfinite(given) & (given > 0)).all():
            raise InvalidValue(f"The stream got dt={dt!r}; give the time of a step, above 0.")
        return np.broadcast_to(given, shape)

    def _places(self, rows) -> np.ndarray:
        """The rows, padded to a power of 2, so that there are few compilations, with a row beyond the last stream, where writes
        are dropped."""
        assert self.count is not None
        return np.concatenate([rows, np.full(_more(rows), self.count, np.int32)])

    def _program(self, kind: str):
        if kind not in self._programs:
            self._programs[kind] = jax.jit(getattr(self, f"_{kind}"), donate_argnums=0)
        return self._programs[kind]

    # The parameters are constants of the programs, and the state is one array for each dtype: a call costs about a microsecond
    # for each array that it takes or returns, which for a small model would be most of it.

    def _one(self, state, sample, dt):
        output, after = self.model.step(sample, self._packing.unpack(state), dt=dt)
        return output, self._packing.pack(after)

    def _all(self, state, sample, dt):
        return self._one(state, sample, dt) if self.count is None else jax.vmap(self._one)(state, sample, dt)

    def _some(self, state, sample, dt, places):
        chosen = tuple(array.at[places].get(mode="clip") for array in state)
        output, after = jax.vmap(self._one)(chosen, sample, dt)
        return output, tuple(old.at[places].set(new, mode="drop") for old, new in zip(state, after, strict=True))

    def _skipped(self, state):
        skip = lambda one: self._packing.pack(self.model.skip(self._packing.unpack(one)))
        return skip(state) if self.count is None else jax.vmap(skip)(state)

    def _some_skipped(self, state, places):
        skip = lambda one: self._packing.pack(self.model.skip(self._packing.unpack(one)))
        after = jax.vmap(skip)(tuple(array.at[places].get(mode="clip") for array in state))
        return tuple(old.at[places].set(new, mode="drop") for old, new in zip(state, after, strict=True))

    def _restarted(self, state, places):
        first = self._packing.pack(self.model.first_state())
        return tuple(old.at[places].set(new, mode="drop") for old, new in zip(state, first, strict=True))


class Packing:
    """Conversion between a tree of arrays and one vector per dtype; further leading axes are allowed."""

    def __init__(self, example: Any):
        leaves, self.tree = jax.tree.flatten(example)
        self.shapes = [leaf.shape for leaf in leaves]
        self.dtypes = [leaf.dtype.name for leaf in leaves]
        self.kinds = sorted(set(self.dtypes))

    def pack(self, tree: Any) -> tuple[Array, ...]:
        leaves, parts = jax.tree.leaves(tree), {kind: [] for kind in self.kinds}
        for leaf, shape, dtype in zip(leaves, self.shapes, self.dtypes, strict=True):
            more = leaf.shape[: leaf.ndim - len(shape)]
            parts[dtype].append(jnp.reshape(leaf, (*more, int(np.prod(shape)))))
        return tuple(jnp.concatenate(vectors, -1) for vectors in parts.values())

    def unpack(self, vectors: tuple[Array, ...]) -> Any:
        leaves, places = [], dict.fromkeys(self.kinds, 0)
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            vector, begin = vectors[self.kinds.index(dtype)], places[dtype]
            end = places[dtype] = begin + int(np.prod(shape))
            leaves.append(vector[..., begin:end].reshape(*vector.shape[:-1], *shape))
        return jax.tree.unflatten(self.tree, leaves)


def _more(rows: np.ndarray) -> int:
    """Number of rows to add for a power of 2."""
    return (1 << (len(rows) - 1).bit_length()) - len(rows)


def _fingerprint(model: Steps) -> str:
    """A short checksum of a model's configuration and parameters."""
    crc = zlib.crc32(json.dumps(json.loads(model.config.to_json()), sort_keys=True).encode())
    for leaf in jax.tree.leaves(model):
        crc = zlib.crc32(np.ascontiguousarray(leaf).tobytes(), crc)
    return f"{crc:08x}"
