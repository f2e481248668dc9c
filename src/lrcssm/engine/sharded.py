"""One recurrence over many devices: time is split among them, and each solves its own part.

The state s_q with which the part of device q begins is unknown. These few states are found by Newton's method (multiple
shooting). In every iteration, each device

    solves its part from s_q, which ends in e_q = G_q(s_q), with J_q = ∂G_q/∂s_q in the structure of the cell,
    gets the e and J of all others (one exchange, whose size does not depend on the length),
    computes s'_0 = s_0, s'_{q+1} = e_q + J_q (s'_q − s_q).

s_q is exact after q iterations at the latest, for any Jacobians, so P devices need at most P − 1; a cell that
forgets its past within a part needs two. The derivative is that of one more Newton step at the solution, in which J is
held fixed: there it is exact, because it multiplies a difference that is zero.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array

from .jacobian import as_vectors, linearise
from .recurrence import apply_matrix
from .solution import Status
from .system import held
from .tolerance import ROUNDINGS, backward_error, default_rtol, relative, scale, within

Run = Callable[[Any, Array, Array, Any, Any], tuple[Any, Array, Array]]


def over_devices(
    run: Run, cell: Any, inputs: Array, state: Array, dt: Any, mask: Array | None, how: Any
) -> tuple[Any, Array, Array, Array, Array]:
    """A recurrence with its time split over the devices of a mesh.

    **Arguments:**

    - `run`: `(cell, inputs, state, dt, mask) -> (outputs, last state, status)` for a part of time on one device, where
        outputs have time on axis 0.
    - `how`: a `Sharded`.
    - `inputs`, `state`, `dt`, `mask`: as for `lrcssm.solve`, but with one batch axis at least, and a state for each sample.

    **Returns:**

    Outputs, last state, status, iterations and residual.
    """
    length, count = inputs.shape[0], how.mesh.shape[how.sequence]
    extra = -length % count
    if extra:
        mask = jnp.ones(inputs.shape[:-1], bool) if mask is None else mask
        inputs, mask = _longer(inputs, extra, 1), _longer(mask, extra, False)
        dt = _longer(dt, extra, 1) if dt is not None and jnp.ndim(dt) else dt
    batch = how.batch if how.batch in how.mesh.shape and inputs.shape[1] % how.mesh.shape[how.batch] == 0 else None
    moving, sample = PartitionSpec(how.sequence, batch), PartitionSpec(batch)
    each = moving if dt is not None and jnp.ndim(dt) else PartitionSpec()
    arrays, rest = eqx.partition(cell, eqx.is_array)

    def local(arrays, inputs, state, dt, mask):
        return _shoot(run, (eqx.combine(arrays, rest), inputs, dt, mask), state, cell.structure, how, count)

    outputs, last, status, iterations, residual = jax.shard_map(
        local,
        mesh=how.mesh,
        in_specs=(PartitionSpec(), moving, sample, each, moving),
        out_specs=(moving, sample, sample, sample, sample),
        check_vma=False,
    )(arrays, inputs, state, dt, mask)
    if extra:
        outputs = jax.tree.map(lambda a: a[:length], outputs)
    return outputs, last, status, iterations, residual


def _shoot(run: Run, given: tuple[Any, ...], state: Array, structure: str, how: Any, count: int):
    """Solve the part of one device."""
    where = lax.axis_index(how.sequence)
    none = jnp.zeros(state.shape[:-1], jnp.int32)

    def part(given, start):
        cell, inputs, dt, mask = given
        return run(cell, inputs, start, dt, mask)

    if count == 1:
        outputs, final, status = part(given, state)
        return outputs, final, status, none, jnp.zeros(none.shape, state.real.dtype)

    def everywhere(found):
        return lax.all_gather(found, how.sequence)

    still, first = held((given, state))
    rtol = default_rtol(state.dtype)
    tolerance = ROUNDINGS * rtol  # a part adds up the rounding of its steps

    def body(carry):
        number, starts, _, iterations, _ = carry
        end, jacobian = linearise(lambda start: part(still, start)[1], starts[where], structure)
        # In one message; all devices of a sequence then have the same numbers, so that they stop at the same iteration.
        told = everywhere(jnp.concatenate([end, jacobian.reshape(*end.shape[:-1], -1)], -1))
        ends, jacobians = told[..., : end.shape[-1]], told[..., end.shape[-1] :].reshape(count, *jacobian.shape)
        new = _propagate(first, starts, ends, jacobians, structure, safe=True)
        size = scale(new[1:], new[:-1], jacobians[:-1], rtol)
        settled = within(jnp.abs(new - starts)[1:], size, tolerance, 0.0)
        open_ = ~jnp.all(settled, (0, 2))
        new = jnp.where(open_[..., None], new, starts)  # what is done does not move with what is not
        return number + 1, new, jacobians, iterations + open_.astype(jnp.int32), jnp.any(open_)

    def go_on(carry):
        number, *_, unfinished = carry
        return (number < count - 1) & unfinished

    starts = jnp.broadcast_to(first, (count, *first.shape))
    shape = jax.eval_shape(lambda start: linearise(lambda s: part(still, s)[1], start, structure)[1], first)
    unknown = jnp.zeros((count, *shape.shape), shape.dtype)
    carry = (jnp.zeros((), jnp.int32), starts, unknown, none, jnp.ones((), bool))
    _, starts, jacobians, iterations, _ = lax.while_loop(go_on, body, carry)
    # At the solution they multiply zero, which they must not make NaN: their products may overflow where no state does.
    starts, jacobians = held((starts, jnp.where(jnp.isfinite(jacobians), jacobians, 0)))

    ends = everywhere(part(given, starts[where])[1])
    begin = _propagate(state, starts, ends, jacobians, structure)
    outputs, final, status = part(given, begin[where])
    finals = everywhere(final)
    residual, met = _mismatch(held((begin, finals)), (starts, held(ends)), jacobians, rtol, tolerance)
    status = _first_failure(everywhere(status))
    lost = (status <= Status.FELL_BACK) & ~met
    return outputs, finals[-1], jnp.where(lost, int(Status.APART), status), iterations, residual


def _first_failure(statuses):
    """The status of the first part without a solution, since later parts depend on it; else the worst status."""
    bad = statuses > Status.FELL_BACK
    first = jnp.take_along_axis(statuses, jnp.argmax(bad, 0)[None], 0)[0]
    return jnp.where(jnp.any(bad, 0), first, jnp.max(statuses, 0))


def _propagate(first, starts, ends, jacobians, structure, safe=False):
    """The initial states of all parts, from their final states and Jacobians."""
    pack, unpack = as_vectors(structure)

    def apply(jacobian, x):
        return jacobian * x if structure == "diagonal" else unpack(apply_matrix(jacobian, pack(x)))

    def following(state, one):
        start, end, jacobian = one
        new = end + apply(jacobian, state - start)
        if safe:  # a product of many Jacobians may overflow where the recurrence itself does not
            new = jnp.where(jnp.isfinite(new), new, jnp.where(jnp.isfinite(end), end, first))
        return new, new

    _, later = lax.scan(following, first, jax.tree.map(lambda a: a[:-1], (starts, ends, jacobians)))
    return jnp.concatenate([first[None], later])


def _mismatch(last, earlier, jacobians, rtol, tolerance):
    """For each sample, the largest relative difference at a shard boundary, and whether all are within the tolerance: the
    rule of `tolerance.py`, where a part takes the place of a step."""
    begin, finals = last
    starts, ends = earlier
    close = jnp.all(within(jnp.abs(begin - starts), jnp.abs(begin), rtol, 0.0), -1)
    error = backward_error(begin[1:], finals[:-1], ends[:-1], close[:-1])
    size = scale(begin[1:], begin[:-1], jacobians[:-1], rtol)
    return jnp.max(relative(error, size), (0, 2)), jnp.all(within(error, size, tolerance, 0.0), (0, 2))


def _longer(array, extra, value):
    return jnp.pad(array, ((0, extra), *((0, 0),) * (array.ndim - 1)), constant_values=value)
