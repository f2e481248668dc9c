"""The arguments of `solve`, checked and brought into the layout `(time, batch, features)`."""

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Var, jaxpr_as_fun
from jaxtyping import Array, Inexact

from ..errors import InvalidType, InvalidValue
from .jacobian import STRUCTURES
from .system import Piece


class FunctionCell(eqx.Module):
    """A plain function as a cell, dense by default.

    The arrays that it closes over are a field, so that it is differentiated with respect to them too."""

    values: list[Any]
    jaxpr: Jaxpr = eqx.field(static=True)
    takes_dt: bool = eqx.field(static=True)
    structure: str = eqx.field(static=True, default="dense")
    affine: bool = eqx.field(static=True, default=False)

    def drive(self, inputs):
        return inputs

    def step(self, state, drive, dt):
        function = jaxpr_as_fun(ClosedJaxpr(self.jaxpr, self.values))
        given = (jnp.asarray(dt, jnp.finfo(state.dtype).dtype),) if self.takes_dt else ()
        return function(state, drive, *given)[0]


class Arguments(eqx.Module):
    """The checked arguments of a solver, and the batch shape of its results."""

    cell: Any
    piece: Piece
    initial: Inexact[Array, "batch state"]
    guess: Inexact[Array, "time batch state"] | None
    batch: tuple[int, ...] = eqx.field(static=True)

    def restore(self, array: Array) -> Array:
        """Restore the batch axes of `(time, batch, state)` or `(batch,)`."""
        if array.ndim == 1:
            return array.reshape(self.batch)
        return array.reshape(array.shape[0], *self.batch, array.shape[2])


def prepare(cell, inputs, state, dt, mask, guess) -> Arguments:
    inputs = _floating("inputs", inputs)
    if inputs.ndim < 2:
        raise InvalidValue(
            f"solve got inputs of shape {inputs.shape}; expected (time, ..., features), so for one channel add an axis: "
            "inputs[:, None]."
        )
    if inputs.shape[0] == 0:
        raise InvalidValue(f"solve got inputs of shape {inputs.shape}, which hold no time step; give at least one.")
    length, *axes = inputs.shape[:-1]
    batch = tuple(axes)
    size = int(np.prod(batch))
    if size == 0:
        raise InvalidValue(f"solve got inputs of shape {inputs.shape}, which hold no sample; give at least one.")
    features = inputs.shape[-1]
    function = not hasattr(cell, "step")
    if function and not callable(cell):
        raise InvalidType(
            f"solve got a cell of type {type(cell).__name__}; give a cell (with drive and step) or a function "
            "(state, input) -> state."
        )
    if not function:
        _check_cell(cell, features)
    initial = _initial(None if function else cell, state, batch)
    if jnp.finfo(inputs.dtype).dtype != jnp.finfo(initial.dtype).dtype:
        raise InvalidType(
            f"solve got inputs of dtype {inputs.dtype} for a state of dtype {initial.dtype}; both must have the same "
            "precision, so cast the inputs or the cell's parameters."
        )
    inputs = inputs.reshape(length, size, features)
    if mask is not None:
        mask = _mask(mask, (length, *batch)).reshape(length, size)
        # Ones are harmless to what people do with inputs (logarithms, quotients), also in the gradient.
        inputs = jnp.where(mask[..., None], inputs, 1)
    if dt is not None:
        dt = _dt(dt, (length, *batch), initial)
        if dt.ndim:
            dt = dt.reshape(length, size)
            dt = dt if mask is None else jnp.where(mask, dt, 1)
        _check_times(dt)
    initial = initial.reshape(size, -1)
    if function:
        cell = _convert(cell, initial[0], inputs[0, 0], dt)
    piece = Piece(inputs, dt, mask)
    _check_step(cell, piece, initial)
    if dt is not None and not _uses_dt(cell, piece, initial):
        name = "a function" if function else type(cell).__name__
        raise InvalidValue(
            f"solve got dt for {name}, whose step does not depend on it; leave dt out, or use it in the step."
        )
    if guess is not None:
        guess = _guess(guess, (length, *batch, initial.shape[1]), initial.dtype).reshape(length, size, -1)
    return Arguments(cell, piece, initial, guess, batch)


def _floating(name, value) -> Array:
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidType(
            f"solve got {name} of type {type(value).__name__}; give an array of real or complex numbers."
        ) from error
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        raise InvalidType(
            f"solve got {name} of dtype {array.dtype}; give floating-point numbers, e.g. jnp.asarray({name}, jnp.float32)."
        )
    return array


def _check_cell(cell, features):
    structure = getattr(cell, "structure", None)
    if structure not in STRUCTURES:
        raise InvalidValue(
            f"{type(cell).__name__} declares structure={structure!r}; a cell's structure is one of {', '.join(STRUCTURES)}."
        )
    wanted = getattr(cell, "input_dim", features)
    if wanted != features:
        raise InvalidValue(
            f"solve got inputs with {features} features for {type(cell).__name__}(input_dim={wanted}); the last axis of "
            "the inputs must have that size (time is axis 0)."
        )


def _initial(cell, state, batch) -> Array:
    if state is None:
        if cell is None:
            raise InvalidValue("solve got a function but no state; give the state before the first step as state=.")
        return cell.initial_state(batch)
    state = _floating("state", state)
    own = state if cell is None or state.ndim == 0 else jax.eval_shape(cell.initial_state)
    size = own.shape[-1] if own.ndim else 1
    if state.dtype != own.dtype:
        raise InvalidType(
            f"solve got a state of dtype {state.dtype} for a cell of dtype {own.dtype}; cast the state: "
            f"state.astype(jnp.{own.dtype})."
        )
    if state.shape not in ((size,), (*batch, size)):
        raise InvalidValue(
            f"solve got a state of shape {state.shape}; expected {(*batch, size)}, or {(size,)} for all samples alike."
        )
    return jnp.broadcast_to(state, (*batch, size))


def _mask(mask, shape) -> Array:
    mask = jnp.asarray(mask)
    if mask.dtype != jnp.bool_:
        raise InvalidType(f"solve got a mask of dtype {mask.dtype}; give booleans, true for observed steps.")
    if mask.shape != shape:
        raise InvalidValue(f"solve got a mask of shape {mask.shape}; expected (time, ...) = {shape}.")
    return mask


def _dt(dt, shape, initial) -> Array:
    real = jnp.finfo(initial.dtype).dtype
    if isinstance(dt, int | float):
        _check_times(dt)  # here, because while something is compiled the array of it may have no value
        dt = jnp.asarray(dt, real)
    dt = _floating("dt", dt)
    if dt.shape == shape[:1]:
        dt = jnp.broadcast_to(dt.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    if dt.shape not in ((), shape):
        raise InvalidValue(f"solve got dt of shape {dt.shape}; expected a scalar, (time,) or (time, ...) = {shape}.")
    if dt.dtype != real:
        raise InvalidType(f"solve got dt of dtype {dt.dtype} for a state of dtype {initial.dtype}; cast dt to {real}.")
    return dt


def _check_times(dt):
    """Raise an error for invalid times. Traced times, and those on devices of other processes, are checked by the status."""
    if isinstance(dt, jax.core.Tracer) or not getattr(dt, "is_fully_addressable", True):
        return
    times = np.asarray(dt)
    odd = ~((times >= 0) & (times < np.inf))
    if odd.any():
        raise InvalidValue(
            f"solve got a dt of {times[odd].flat[0]}; give the time that a step takes, finite and not negative (0: no time "
            "passes)."
        )


def _guess(guess, shape, dtype) -> Array:
    guess = _floating("guess", guess)
    if guess.shape != shape or guess.dtype != dtype:
        raise InvalidValue(
            f"solve got a guess of shape {guess.shape} and dtype {guess.dtype}; expected {shape} and {dtype}."
        )
    return guess


def _convert(function, state, inputs, dt) -> FunctionCell:
    takes_dt = _positional(function) >= 3
    if dt is not None and not takes_dt:
        raise InvalidValue(
            "solve got dt for a function of (state, input); write it as a function of (state, input, dt) to use dt."
        )
    example = (state, inputs, jnp.ones((), jnp.finfo(state.dtype).dtype)) if takes_dt else (state, inputs)
    names = ("state", "input", "dt")[: len(example)]
    closed, _, _ = _attempt("The function", lambda *x: eqx.filter_make_jaxpr(function)(*x), function, names, example)
    if len(closed.out_avals) != 1:
        raise InvalidType(f"One step of the function gives {len(closed.out_avals)} arrays; give the next state alone.")
    return FunctionCell(closed.consts, closed.jaxpr, takes_dt)


def _positional(function) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


def _check_step(cell, piece, initial):
    """Trace one step, so that errors in a cell are raised here and not inside a scan."""
    dt = 1.0 if piece.dt is None else piece.dt if piece.dt.ndim == 0 else piece.dt[0, 0]
    new = eqx.filter_eval_shape(_one_step, cell, initial[0], piece.inputs, dt)
    if not hasattr(new, "shape"):
        raise InvalidType(f"{type(cell).__name__}.step gives a {type(new).__name__}; give the next state alone.")
    if new.shape != initial.shape[1:] or new.dtype != initial.dtype:
        raise InvalidType(
            f"One step takes a state of shape {initial.shape[1:]} and dtype {initial.dtype} to one of shape {new.shape} "
            f"and dtype {new.dtype}; both must be the same, so look at the cell's step, its parameters and the inputs "
            f"(dtype {piece.inputs.dtype})."
        )


def _uses_dt(cell, piece, initial) -> bool:
    """True if the next state depends on dt, by the equations of one step."""
    one = lambda dt: _one_step(cell, initial[0], piece.inputs, dt)
    program = jax.make_jaxpr(one)(jnp.ones((), jnp.finfo(initial.dtype).dtype)).jaxpr
    reached = set(program.invars)
    for equation in program.eqns:
        if any(isinstance(v, Var) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    return any(isinstance(v, Var) and v in reached for v in program.outvars)


def _one_step(cell, state, inputs, dt):
    name, lead = type(cell).__name__, inputs.shape[:2]
    drive = _attempt(f"{name}.drive", cell.drive, cell.drive, ("inputs",), (inputs,))
    for leaf in jax.tree.leaves(drive):
        if jnp.shape(leaf)[:2] != lead:
            raise InvalidValue(
                f"{name}.drive takes inputs of shape {inputs.shape} to an array of shape {jnp.shape(leaf)}; it must keep all "
                f"axes before the last, here {lead}, so let it work on the last axis alone."
            )
    given = state, jax.tree.map(lambda leaf: leaf[0, 0], drive), dt
    return _attempt(f"{name}.step", cell.step, cell.step, ("state", "drive", "dt"), given)


def _attempt(what, call, written, names, given):
    """The result of `call`; if that fails, an error with the parameters that it should take, or the shapes that it was given."""
    try:
        return call(*given)
    except jax.errors.JAXTypeError:  # says at length what to do
        raise
    except (TypeError, ValueError) as error:
        if not _takes(written, len(given)):
            raise InvalidType(
                f"{what} takes {inspect.signature(written)}; write it with the parameters ({', '.join(names)})."
            ) from error
        shapes = [[str(jnp.shape(leaf)) for leaf in jax.tree.leaves(value)] for value in given]
        words = ", ".join(f"{name} of shape {' and '.join(each)}" for name, each in zip(names, shapes, strict=True))
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")[:160]
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} failed on {words} ({reason}); make it fit these shapes.") from error


def _takes(function, count) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it has no signature that could be read
        pass
    return True
