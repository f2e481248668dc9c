"""The saturated liquid time-constant cell with a diagonal Jacobian: an LRC with constant capacitance.

Paper (equation 5, diagonal; f and z as in `liquid.py`, everything per unit i):

    ẋ = −σ(f) x + tanh(z) e_leak
"""

import jax.numpy as jnp
from jax.nn import sigmoid

from ..errors import InvalidValue
from .base import logit, spread_rates
from .liquid import Liquid, saturated_limits


class STC(Liquid):
    """A layer of saturated liquid time-constant units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.STC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:** as for [`LRC`][lrcssm.cells.LRC], without the elastance's.
    """

    def _spread_rates(self, max_time: float | int) -> None:
        """The leak sets the rate, and e_leak follows so that the rest keeps its scale. The leak is in z too: k_u takes it
        out again, and the synapse's slope becomes as much smaller as k_u became larger."""
        if self.nonnegative:
            raise InvalidValue(
                'STC got init="spread" and nonnegative=True: with non-negative conductances σ(f) ≥ 1/2, and no '
                "unit remembers more than two steps; drop one of them, or use LRC."
            )
        rates = spread_rates(self.state_dim, max_time, self.e_leak.dtype)
        change = logit(rates) - self._mean_forget()
        self.g_leak, self.e_leak = self.g_leak + change, self.e_leak * rates
        if self.form == "paper":
            old, self.k_u = self.k_u, self.k_u - 2 * change
            ratio = jnp.minimum(1, jnp.abs(old / self.k_u))
            self.a_u, self.b_u = self.a_u * ratio, self.b_u * ratio
        else:
            self.k_u = self.k_u - 2 * change / self.input_dim

    def _rates(self, x, f, z, drive, slope):
        del x, drive, slope
        return sigmoid(f), self.e_leak * jnp.tanh(z), None

    def _limits(self, f, z):
        return saturated_limits(f, z, self.e_leak)
