"""Further arguments of every block and every layer along time, besides inputs and state."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, PRNGKeyArray

from ..engine import Auto, Solver


class Context(eqx.Module):
    """Times, mask, random key and solver for a run over some steps.

    ```python
    import jax.numpy as jnp
    from lrcssm.models import Context

    context = Context(dt=jnp.asarray([1.0, 2.0, 3.0]))
    print(context.reversed().dt)  # [1. 3. 2.]: nothing is before the last sample, which now comes first
    ```

    **Arguments:**

    - `dt`, `mask`: as for `lrcssm.solve`.
    - `key`: for dropout; `None` outside training.
    - `solver`, `throw`: as for `lrcssm.solve`.
    """

    dt: Any = None
    mask: Bool[Array, "time *batch"] | None = None
    key: PRNGKeyArray | None = None
    solver: Solver = eqx.field(static=True, default=Auto())
    throw: bool = eqx.field(static=True, default=True)

    def replace(self, **changes: Any) -> "Context":
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def keys(self, number: int) -> tuple[PRNGKeyArray | None, ...]:
        """Split the key, if there is one."""
        return (None,) * number if self.key is None else tuple(jax.random.split(self.key, number))

    def reversed(self) -> "Context":
        """Return the context of the same steps from the last to the first."""
        mask = None if self.mask is None else jnp.flip(self.mask, 0)
        return self.replace(dt=_reversed_times(self.dt, self.mask), mask=mask)


def _reversed_times(dt: Any, mask: Array | None) -> Any:
    """Times between steps in reversed order: each step takes the `dt` of the next observed step, the last one takes 1."""
    if dt is None or jnp.ndim(dt) == 0:
        return dt
    length = dt.shape[0]
    places = jnp.arange(length).reshape(-1, *(1,) * (dt.ndim - 1))
    valid = jnp.broadcast_to(places if mask is None else jnp.where(mask, places, length), dt.shape)
    here_or_later = lax.cummin(valid, reverse=True)
    after = jnp.concatenate([here_or_later[1:], jnp.full_like(here_or_later[:1], length)])
    found = jnp.take_along_axis(dt, jnp.minimum(after, length - 1), 0)
    return jnp.flip(jnp.where(after < length, found, jnp.ones_like(found)), 0)
