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
from .block import Block, BlockResult
from .config import ModelConfig
from .context import Context
from .features import Features
from .layers import MLP, Linear, in_its_precision, masked, normalise
from .loops import run_blocks, run_chunks
from .plan import Plan, make_plan, why_whole
from .pool import Pool
from .step import StepState, start, step

if TYPE_CHECKING:
    from .stream import Stream


class ModelState(eqx.Module):
    """State of a model after some steps of a sequence: the states of its blocks and, if it takes differences, the last sample
    and whether it was observed."""

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
            self.pool = Pool("mean" if config.pool == "logits" else str(config.pool), width, keys[2])
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
        """Compute the outputs, and the state after the last step.

        **Arguments:**

        - `inputs`: `(time, ..., channels)`.
        - `state`: of a previous call, to continue from; the outputs are then those of this piece alone.
        - `dt`, `mask`: as for `lrcssm.solve`.
        - `key`: for dropout; without it there is none.
        - `solver`, `throw`: as for `lrcssm.solve`.
        - `chunk`: steps (after patching) that go through all blocks before the next ones. `"auto"` chooses it for long inputs,
            `None` takes all steps at once. The backward pass recomputes all but the states, and very many states as well, so
            that memory grows with the length over the chunk. Outputs and gradients are the same to rounding. A model that needs
            all steps at once, such as a bidirectional one, is not chunked: for a very long input `"auto"` then keeps the
            features between its blocks and recomputes the rest.
        - `truncate`: a chunk as well, but gradients end at its start (truncated back-propagation through time); outputs are
            the same.
        - `memory`: upper limit for a training step on each device, with parameters and optimiser: bytes, or a text such as
            `"1.5GB"`. By an upper estimate from the shapes, `chunk="auto"` then keeps as much as fits: everything, the
            states, or nothing, in chunks that fit. `InvalidValue` is raised if nothing fits.

        **Returns:**

        `(..., outputs)`, or `(time, ..., outputs)` for `task="per-step"`; and a `ModelState`.
        """
        outputs, state, _ = self.run(
            inputs, state=state, chunk=chunk, truncate=truncate, memory=memory,
            dt=dt, mask=mask, key=key, solver=solver, throw=throw,
        )  # fmt: skip
        return outputs, state

    @in_its_precision
    def run(
        self,
        inputs: Float[Array, "time *batch channels"],
        *,
        state: ModelState | None = None,
        chunk: int | Literal["auto"] | None = "auto",
        truncate: int | None = None,
        memory: int | float | str | None = None,
        **context: Any,
    ) -> tuple[Float[Array, "*out"], ModelState, tuple[BlockResult, ...]]:
        """Call the model (`context`: the fields of `Context`), and also return the result of each block: its `solution` and its
        updated `norm`."""
        self._check(inputs, state)
        given = Context(**context)
        before = None if state is None or state.last is None or state.valid is None else (state.last, state.valid)
        x, dt, valid = self.features(inputs, given.dt, given.mask, before)
        states = (None,) * len(self.blocks) if state is None else state.blocks
        training, limits = given.key is not None, {"chunk": chunk, "truncate": truncate, "memory": memory}
        plan = make_plan(self, x, training=training, solver=given.solver, **limits)
        traced = is_traced((self, x, states, dt, valid))
        # Outside of a trace errors are raised below: inside a loop a solve cannot raise one with its own sentence.
        inner = given.replace(dt=dt, mask=valid, throw=given.throw and traced)
        if plan.chunk is None:
            h, results = self.stack(x, states, inner, plan)
            outputs = self.finish(*self.read(self.start_pool(x.shape[1:-1]), h, valid))
        else:
            outputs, results = run_chunks(self, x, states, inner, plan)
        if given.throw and not traced:
            for result in results:
                if result.solution is not None:
                    check_solution(result.solution)
        last = seen = None
        if self.config.differences:
            last = masked(inputs, given.mask)[-1]
            seen = jnp.ones(last.shape[:-1], bool) if given.mask is None else given.mask[-1]
        return self._scaled(outputs), ModelState(tuple(result.state for result in results), last, seen), results

    @in_its_precision
    def step(
        self, sample: Float[Array, "*batch channels"], state: StepState | None = None, *, dt: Any = None
    ) -> tuple[Float[Array, "*batch outputs"], StepState]:
        """Compute the output after one more sample, and the state for the next one.

        ```python
        import jax, lrcssm

        config = lrcssm.ModelConfig(input_dim=6, output_dim=2, hidden_dim=16, state_dim=16, num_blocks=2)
        model = lrcssm.SequenceModel(config, jax.random.key(0))
        state = None
        for sample in jax.random.normal(jax.random.key(1), (5, 6)):
            logits, state = model.step(sample, state)
        ```

        A pure function for `jax.jit`, `jax.vmap` and `lax.scan`; `stream` is easier to use and faster.

        **Arguments:**

        - `sample`: `(..., channels)`.
        - `state`: of the call for the sample before; `None` at the start.
        - `dt`: time of this step, a scalar or `(...)`; 1 if not given.

        **Returns:**

        `(..., outputs)`: for `task="per-step"` that step's, else those of a call with all samples so far; and a `StepState`.
        With patches, the output after the last full patch, and NaN before there is one. Values are not checked: a recurrence
        that overflows gives outputs that are not finite.
        """
        self.check_steps()
        wanted = self.config.input_dim
        if sample.ndim < 1 or sample.shape[-1] != wanted:
            raise InvalidValue(
                f"The model got a sample of shape {sample.shape}; expected (..., {wanted}), one time step."
            )
        if state is not None and not isinstance(state, StepState):
            raise InvalidType(
                f"step got a state of type {type(state).__name__}; give the state that step returned. To start from "
                "earlier samples, step through them."
            )
        state = start(self, sample.shape[:-1]) if state is None else state
        outputs, state = step(self, sample, state, dt)
        return self._scaled(outputs), state

    @property
    def dtype(self) -> np.dtype:
        """Precision of samples and outputs."""
        return np.dtype(self.target_mean.dtype)

    def first_state(self) -> StepState:
        """Return the state before the first sample, for `step`."""
        return start(self)

    def skip(self, state: StepState) -> StepState:
        """Return the state after a step without a sample, whose time is added to that of the next one: the same."""
        if self.config.patch > 1 or self.config.differences:
            raise InvalidValue(
                "A model with patches or differences cannot skip a sample; train one with patch=1 and differences=False, or "
                'with missing="fill".'
            )
        return state

    def stream(self, count: int | None = None) -> "Stream":
        """Make a stream, or `count` of them at once, each at its own position: see `lrcssm.models.Stream`."""
        from .stream import Stream

        return Stream(self, count)

    def stack(
        self, x: Float[Array, "time *batch features"], states: tuple[Any, ...], context: Context, plan: Plan = Plan()
    ) -> tuple[Float[Array, "time *batch width"], tuple[BlockResult, ...]]:
        """Run encoder and blocks over some steps of the encoder's inputs."""
        h = x if self.encoder is None else self.encoder(x)
        if plan.recomputes_blocks:
            h, results = run_blocks(self.blocks, h, states, context, plan)
        else:
            results = []
            for block, state, key in zip(self.blocks, states, context.keys(len(self.blocks)), strict=True):
                h, result = block(h, state, context.replace(key=key))
                results.append(result)
        if self.config.layout == "pre-norm" and self.config.final_norm:
            h = normalise(h)
        return h, tuple(results)

    def start_pool(self, batch: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return the sums of the pool before the first step; `None` if each step has its own output."""
        return None if self.pool is None else self.pool.start(batch, self.target_mean.dtype)

    def read(
        self,
        pooled: dict[str, Any] | None,
        h: Float[Array, "time *batch width"],
        mask: Bool[Array, "time *batch"] | None,
    ) -> tuple[dict[str, Any] | None, Float[Array, "time *batch outputs"] | None]:
        """Add some more steps to the pool, or compute the output of each if there is none."""
        if self.pool is None or pooled is None:
            return None, self.head(h)
        # The last map of the head commutes with the mean over time, and has far less to do after it.
        h = self.head.hidden(h) if isinstance(self.head, MLP) else h
        return self.pool.add(pooled, h, mask), None

    def finish(self, pooled: dict[str, Any] | None, outputs: Any) -> Float[Array, "*out"]:
        """Compute the outputs of a sequence from the sums of its pool; without a pool, return those of its steps."""
        if self.pool is None or pooled is None:
            return outputs
        head = self.head.second if isinstance(self.head, MLP) else self.head
        return head(self.pool.result(pooled))

    def _scaled(self, outputs):
        if self.config.task == "classify":
            return outputs
        return outputs * lax.stop_gradient(self.target_scale) + lax.stop_gradient(self.target_mean)

    def classifies(self, targets: Any) -> bool:
        """Return whether the outputs are logits of classes; with an output for each step the targets decide."""
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
        if state is None:
            return
        if not isinstance(state, ModelState):
            raise InvalidType(
                f"The model got a state of type {type(state).__name__}; give the state that a call returned. The state of step "
                "is for step."
            )
        if (reason := self.whole()) is not None:
            raise InvalidValue(
                f"The model got a state, but it {reason}; give it all steps of a sequence at once, without one."
            )
        if inputs.shape[0] % self.config.patch:
            raise InvalidValue(
                f"The model got {inputs.shape[0]} steps and a state; with patch={self.config.patch} a piece must be a "
                "multiple of that."
            )

    def whole(self, **kind: Any) -> str | None:
        """Return the reason why a sequence cannot be given in pieces, as the end of a sentence that starts with "it"; `None` if
        it can. See `lrcssm.models.plan.why_whole`, which also covers chunks and training."""
        return why_whole(self, **kind)

    def check_steps(self) -> None:
        """Raise `InvalidValue` if the model cannot take one sample at a time."""
        if (reason := self.whole()) is not None:
            raise InvalidValue(
                f"step cannot be used with this model, because it {reason}; call the model with all steps of a sequence."
            )

    def with_statistics(
        self, mean: Any, scale: Any, difference: Any = 1.0, target_mean: Any = 0.0, target_scale: Any = 1.0
    ) -> "SequenceModel":
        """Return the model with the statistics of its training data, as `Cases.statistics` gives them.

        **Arguments:**

        - `mean`, `scale`, `difference`: of each channel, and the scale of its first differences, for
            `standardise="channel"`.
        - `target_mean`, `target_scale`: of targets that are numbers, in whose units the model then predicts.
        """
        old = _statistics(self)
        given = (mean, scale, difference, target_mean, target_scale)
        new = tuple(jnp.broadcast_to(jnp.asarray(a, b.dtype), b.shape) for a, b in zip(given, old, strict=True))
        return eqx.tree_at(_statistics, self, new)

    def with_norms(self, results: tuple[BlockResult, ...]) -> "SequenceModel":
        """Return the model with the batch norms that `run` has updated."""
        return eqx.tree_at(_norms, self, tuple(result.norm for result in results), is_leaf=lambda norm: norm is None)

    def penalty(self) -> Float[Array, ""]:
        """Sum the penalties of all layers, which training adds to the loss."""
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
    """Return a tree of the model's shape: true for learned parameters, false for the statistics of the data."""
    learned = jax.tree.map(eqx.is_inexact_array, model)
    return eqx.tree_at(_fixed, learned, replace_fn=lambda _: False)


def parameter_count(model: SequenceModel) -> int:
    """Count the real numbers that are learned; a complex one counts as two."""
    return count_numbers(eqx.filter(model, trainable(model)))
