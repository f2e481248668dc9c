"""`SequenceModel`: encoder, blocks, norm, head."""

from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..cells.base import parameter_count as count_numbers
from ..engine import Auto, Solver
from ..engine.solve import check_solution, is_traced
from ..errors import InvalidType, InvalidValue
from .block import Block, Passed
from .budget import choose_way
from .chunks import choose_chunk, choose_pieces, run_chunks, why_at_once
from .config import ModelConfig
from .features import Features
from .layers import MLP, Linear, in_its_precision, masked, normalise
from .pool import Pool
from .recompute import alike, run_again, very_long
from .step import StepState, start, step

if TYPE_CHECKING:
    from .stream import Stream


class ModelState(eqx.Module):
    """What a model remembers of a sequence: the state of each block, and the sample of the last step, and whether that step was
    valid, if it takes differences."""

    blocks: tuple[Any, ...]
    last: Float[Array, "*batch channels"] | None
    valid: Bool[Array, "*batch"] | None


class SequenceModel(eqx.Module):
    """A stack of recurrent blocks between an encoder and a head.

    ```python
    import jax, lrcssm

    config = lrcssm.ModelConfig(input_dim=6, output_dim=2, hidden_dim=16, state_dim=16, num_blocks=2)
    model = lrcssm.SequenceModel(config, jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (100, 5, 6))  # time, batch, channels
    logits, state = model(inputs)
    print(logits.shape)  # (5, 2)
    ```

    **Arguments:**

    - `config`: a `ModelConfig`.
    - `key`: a `jax.random.key`.
    """

    features: Features
    encoder: MLP | Linear | None
    blocks: tuple[Block, ...]
    pool: Pool | None
    head: MLP | Linear
    target_mean: Float[Array, " outputs"]
    target_scale: Float[Array, " outputs"]
    config: ModelConfig = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: PRNGKeyArray):
        keys = jax.random.split(key, config.num_blocks + 3)
        self.config = config
        self.features = Features(config)
        width, size = config.hidden_dim, self.features.size
        if config.encoder == "mlp":
            self.encoder = MLP(size, width, width, "relu", keys[0], released=config.layout == "released")
        else:
            self.encoder = Linear(size, width, keys[0]) if config.encoder == "linear" else None
        blocks, width = [], size if self.encoder is None else width
        for key in keys[3:]:
            blocks.append(Block(config, width, key))
            width = blocks[-1].size
        self.blocks = tuple(blocks)
        self.target_mean, self.target_scale = jnp.zeros(config.output_dim), jnp.ones(config.output_dim)
        self.pool = None
        if config.task != "per-step":
            self.pool = Pool("mean" if config.pool == "logits" else config.pool, width, keys[2])
        if config.pool == "logits":
            self.head = MLP(width, width, config.output_dim, "relu", keys[1], released=config.layout == "released")
        else:
            self.head = Linear(width if self.pool is None else self.pool.size, config.output_dim, keys[1])

    def __call__(
        self,
        inputs: Float[Array, "time *batch channels"],
        *,
        state: ModelState | None = None,
        dt: Any = None,
        mask: Bool[Array, "time *batch"] | None = None,
        key: PRNGKeyArray | None = None,
        solver: Solver = Auto(),
        throw: bool = True,
        chunk: int | Literal["auto"] | None = "auto",
        truncate: int | None = None,
        memory: int | float | str | None = None,
    ) -> tuple[Float[Array, "*out"], ModelState]:
        """The outputs, and the state after the last step.

        **Arguments:**

        - `inputs`: `(time, ..., channels)`.
        - `state`: that of a previous call, to go on where it ended; the outputs are then those of this piece alone.
        - `dt`, `mask`: as for `lrcssm.solve`.
        - `key`: for dropout; without it there is none.
        - `solver`, `throw`: as for `lrcssm.solve`.
        - `chunk`: how many steps (after patching) go through all blocks before the next ones. `"auto"` does that for long
            inputs, `None` never. All but the states is computed again in the backward pass, and if these are very many
            they are too, so that memory grows with the length over the chunk. Outputs and gradients are the same to
            rounding. A model that has to see all steps at once (one that is bidirectional, say) cannot: of a very long
            input `"auto"` then keeps what is between its blocks, and computes what is inside them again.
        - `truncate`: a chunk as well, but gradients go no further back than to its beginning (truncated back-propagation
            through time); outputs are the same.
        - `memory`: the most that a step of training may take on each device, with parameters and optimiser: bytes, or a text
            such as `"1.5GB"`. By an estimate from the shapes, which is rather too large, `chunk="auto"` then keeps all it can:
            everything, the states, or nothing, in chunks that fit. What cannot fit is refused.

        **Returns:**

        `(..., outputs)`, or `(time, ..., outputs)` for `task="per-step"`; and a `ModelState`.
        """
        outputs, state, _ = self.run(
            inputs, state=state, dt=dt, mask=mask, key=key, solver=solver, throw=throw, chunk=chunk, truncate=truncate,
            memory=memory,
        )  # fmt: skip
        return outputs, state

    @in_its_precision
    def run(
        self,
        inputs: Float[Array, "time *batch channels"],
        *,
        state: ModelState | None = None,
        dt: Any = None,
        mask: Bool[Array, "time *batch"] | None = None,
        key: PRNGKeyArray | None = None,
        solver: Solver = Auto(),
        throw: bool = True,
        chunk: int | Literal["auto"] | None = "auto",
        truncate: int | None = None,
        memory: int | float | str | None = None,
    ) -> tuple[Float[Array, "*out"], ModelState, tuple[Passed, ...]]:
        """As a call, with what each block leaves behind as well: its `solution`, and its `norm` gone on."""
        self._check(inputs, state)
        before = None if state is None or state.last is None or state.valid is None else (state.last, state.valid)
        x, dt, valid = self.features(inputs, dt, mask, before)
        keys = (None,) * len(self.blocks) if key is None else tuple(jax.random.split(key, len(self.blocks)))
        states = (None,) * len(self.blocks) if state is None else state.blocks
        traced = is_traced((self, x, states, dt, valid))
        how: dict[str, Any] = {"keys": keys, "solver": solver, "throw": throw and traced}
        training = key is not None
        size = choose_chunk(self, x, chunk, training, solver)
        if truncate is not None:
            size = choose_pieces(self, x, truncate, size, training, solver)
        again, states_too = chunk == "auto" and very_long(self, x), None
        if memory is not None:
            reason = why_at_once(self, training, solver)
            size, again, states_too = choose_way(self, x, memory, chunk, size, truncate, reason, solver)
        cut = None if truncate is None or size is None or x.shape[0] <= truncate else truncate // size
        how["states_too"] = states_too
        if size is None:
            h, passed = self.stack(x, states, dt, valid, again=again, **how)
            known = self.unseen(x.shape[1:-1])
            outputs = self.head(h) if known is None else self.conclude(self.look(known, h, valid))
        else:
            outputs, passed = run_chunks(self, x, states, dt, valid, size, cut=cut, **how)
        if throw and not traced:  # inside a loop a solve cannot say it in a sentence
            for left in passed:
                if left.solution is not None:
                    check_solution(left.solution)
        last = seen = None
        if self.config.differences:
            last = masked(inputs, mask)[-1]
            seen = jnp.ones(last.shape[:-1], bool) if mask is None else mask[-1]
        return self._scaled(outputs), ModelState(tuple(left.state for left in passed), last, seen), passed

    @in_its_precision
    def step(
        self, sample: Float[Array, "*batch channels"], state: StepState | None = None, *, dt: Any = None
    ) -> tuple[Float[Array, "*batch outputs"], StepState]:
        """The output after one more sample, and the state to give with the next one.

        ```python
        import jax, lrcssm

        config = lrcssm.ModelConfig(input_dim=6, output_dim=2, hidden_dim=16, state_dim=16, num_blocks=2)
        model = lrcssm.SequenceModel(config, jax.random.key(0))
        state = None
        for sample in jax.random.normal(jax.random.key(1), (5, 6)):
            logits, state = model.step(sample, state)
        ```

        A function of arrays for `jax.jit`, `jax.vmap` and `lax.scan`; `stream` is quicker to use and to run.

        **Arguments:**

        - `sample`: `(..., channels)`.
        - `state`: what the call for the sample before it gave; `None` at the start.
        - `dt`: the time that this step takes, a scalar or `(...)`; 1 if not given.

        **Returns:**

        `(..., outputs)`: for `task="per-step"` that step's, else what a call with all samples so far gives. With patches
        it is that after the last full patch, and not a number before there is one. And a `StepState`. Nothing is checked
        on the way: a recurrence that overflows gives what is not finite.
        """
        self.check_steps()
        wanted = self.config.input_dim
        if sample.ndim < 1 or sample.shape[-1] != wanted:
            raise InvalidValue(
                f"The model got a sample of shape {sample.shape}; expected (..., {wanted}), one time step."
            )
        if state is not None and not isinstance(state, StepState):
            raise InvalidType(
                f"step got a state of the kind {type(state).__name__}; give what step gave for the sample before. To begin "
                "with a past, step through it."
            )
        state = start(self, sample.shape[:-1]) if state is None else state
        outputs, state = step(self, sample, state, dt)
        return self._scaled(outputs), state

    def stream(self, count: int | None = None) -> "Stream":
        """A stream, or `count` of them at once, each at its own position: see `lrcssm.models.Stream`."""
        from .stream import Stream

        return Stream(self, count)

    def stack(
        self,
        x: Float[Array, "time *batch features"],
        states: tuple[Any, ...],
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        *,
        keys: tuple[PRNGKeyArray | None, ...],
        solver: Solver,
        throw: bool,
        again: bool = False,
        states_too: bool | None = None,
    ) -> tuple[Float[Array, "time *batch width"], tuple[Passed, ...]]:
        """Encoder and blocks, over some steps of what `features` gives. `again`: keep nothing but states of what is inside a
        block for the backward pass, and compute it again; `states_too` says whether these, if not their number shall."""
        h = x if self.encoder is None else self.encoder(x)
        how: dict[str, Any] = {"dt": dt, "mask": mask, "solver": solver, "throw": throw}
        passed = []
        if again and alike(self.blocks, h.shape[-1]):
            h, passed = run_again(self.blocks, h, states, keys, states_too, **how)
        else:
            for block, state, key in zip(self.blocks, states, keys, strict=True):
                h, left = block(h, state=state, key=key, **how)
                passed.append(left)
        if self.config.layout == "pre-norm" and self.config.final_norm:
            h = normalise(h)
        return h, tuple(passed)

    def unseen(self, batch: tuple[Any, ...]) -> dict[str, Any] | None:
        """What the pool knows before the first step; `None` if each step has its own output."""
        return None if self.pool is None else self.pool.start(batch, self.target_mean.dtype)

    def look(
        self, known: dict[str, Any], h: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> dict[str, Any]:
        """What the pool knows after some more steps."""
        assert self.pool is not None
        if self.config.pool == "logits":
            # The head's last map commutes with the mean over time, and has far less to do after it.
            assert isinstance(self.head, MLP)
            h = self.head.hidden(h)
        return self.pool.add(known, h, mask)

    def conclude(self, known: dict[str, Any]) -> Float[Array, "*batch outputs"]:
        """The outputs for a sequence, from what the pool knows of it."""
        assert self.pool is not None
        head = self.head.second if isinstance(self.head, MLP) else self.head
        return head(self.pool.result(known))

    def _scaled(self, outputs):
        if self.config.task == "classify":
            return outputs
        return outputs * lax.stop_gradient(self.target_scale) + lax.stop_gradient(self.target_mean)

    def classifies(self, targets: Any) -> bool:
        """Whether the outputs are logits of classes; with an output for each step the targets decide."""
        if self.config.task != "per-step":
            return self.config.task == "classify"
        one = targets[0] if isinstance(targets, tuple) else targets
        return bool(np.issubdtype(one.dtype, np.integer))

    def _check(self, inputs, state):
        wanted = self.config.input_dim
        if inputs.ndim < 2 or inputs.shape[-1] != wanted:
            raise InvalidValue(
                f"The model got inputs of shape {inputs.shape}; expected (time, ..., {wanted}): time first, "
                f"{wanted} channels last."
            )
        if state is not None and not isinstance(state, ModelState):
            raise InvalidType(
                f"The model got a state of the kind {type(state).__name__}; a call takes what another call gave. What step gave "
                "is for step."
            )
        what = self.whole()
        if state is not None and what is not None:
            raise InvalidValue(f"The model got a state, but it {what}, so a sequence cannot be given to it in pieces.")
        if state is not None and self.config.patch > 1 and inputs.shape[0] % self.config.patch:
            raise InvalidValue(
                f"The model got {inputs.shape[0]} steps and a state; with patch={self.config.patch} a piece must be a "
                "multiple of that."
            )

    def whole(self) -> str | None:
        """Why a sequence cannot be given in pieces, if it cannot, to go on after "but it"."""
        reasons = {
            "is bidirectional": self.config.bidirectional,
            "sees the share of time that has passed": self.config.include_time,
            "scales each sequence as a whole": self.config.standardise == "case",
            "cuts each sequence as a whole into windows": bool(self.config.signature),
        } | {block.layer.whole: True for block in self.blocks if block.layer.whole is not None}
        return next((reason for reason, holds in reasons.items() if holds), None)

    def check_steps(self) -> None:
        """Raises `ValueError` with one sentence if the model cannot take one sample at a time."""
        if (what := self.whole()) is not None:
            raise InvalidValue(
                f"The model was asked for a step, but it {what}, so a sequence cannot be given to it in pieces; call it "
                "with all steps."
            )

    def with_statistics(
        self, mean: Any, scale: Any, difference: Any = 1.0, target_mean: Any = 0.0, target_scale: Any = 1.0
    ) -> "SequenceModel":
        """The model with the mean and scale of each channel in the training data, and the scale of its first differences,
        for `standardise="channel"`; and the mean and scale of the targets if they are numbers: what the model predicts is
        then in their units. `Cases.statistics` gives all of them."""
        old = _statistics(self)
        given = (mean, scale, difference, target_mean, target_scale)
        new = tuple(jnp.broadcast_to(jnp.asarray(a, b.dtype), b.shape) for a, b in zip(given, old, strict=True))
        return eqx.tree_at(_statistics, self, new)

    def with_norms(self, passed: tuple[Passed, ...]) -> "SequenceModel":
        """The model with the batch norms of its blocks as `run` left them."""
        return eqx.tree_at(_norms, self, tuple(left.norm for left in passed), is_leaf=lambda norm: norm is None)

    def penalty(self) -> Float[Array, ""]:
        """What training adds to the loss: the sum of its layers' penalties."""
        layers = [layer for block in self.blocks for layer in (block.layer, block.back) if layer is not None]
        return sum((p for layer in layers if (p := layer.penalty()) is not None), start=jnp.zeros(()))


def _statistics(model):
    features = model.features
    return features.mean, features.scale, features.difference, model.target_mean, model.target_scale


def _norms(model):
    return tuple(block.norm for block in model.blocks)


def _fixed(model):
    return (*_statistics(model), *jax.tree.leaves(_norms(model)))


def trainable(model: SequenceModel) -> Any:
    """A tree of the model's shape: true for what is learned, false for the statistics of the data."""
    learned = jax.tree.map(eqx.is_inexact_array, model)
    return eqx.tree_at(_fixed, learned, replace_fn=lambda _: False)


def parameter_count(model: SequenceModel) -> int:
    """How many real numbers are learned; a complex one counts as two."""
    return count_numbers(eqx.filter(model, trainable(model)))
