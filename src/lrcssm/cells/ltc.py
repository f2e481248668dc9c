"""The liquid time-constant cell with a diagonal Jacobian.

Paper (equation 4, diagonal; f and z as in `liquid.py`, everything per unit i):

    ẋ = −f x + z e_leak

Nothing saturates here, so the conductances have to be positive for the rate f to be: `nonnegative` is on by default, and
so is the implicit integrator, because f has no upper bound that Δt = 1 would respect.
"""

import jax.numpy as jnp
from jaxtyping import DTypeLike, PRNGKeyArray

from ..errors import InvalidValue
from .base import spread_rates
from .integrators import Integrator
from .liquid import ComplexParameters, Contraction, Form, Initialisation, Liquid, StateDependence, inverse_softplus


class LTC(Liquid):
    """A layer of liquid time-constant units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LTC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:** as for [`LRC`][lrcssm.cells.LRC], without the elastance's. The defaults differ: `nonnegative=True`,
    `integrator="implicit"`, and `contraction="negative-softplus-exponential"` is the only one.
    """

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        form: Form = "paper",
        state_dependence: StateDependence = "both",
        complex_parameters: ComplexParameters = "none",
        nonnegative: bool = True,
        integrator: Integrator | None = None,
        rho: float | None = None,
        contraction: Contraction = "negative-softplus-exponential",
        init: Initialisation = "paper",
        max_time: float | int = 1000,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        if rho is not None and contraction == "tanh-clamp":
            raise InvalidValue(
                'LTC got contraction="tanh-clamp", which needs a rate below 1/dt, and its rate has no upper bound; use '
                '"negative-softplus-exponential".'
            )
        if rho is not None and not nonnegative:
            raise InvalidValue(
                "LTC got rho and nonnegative=False, with which its rate may be negative; drop one of them."
            )
        if init == "spread" and not nonnegative:
            raise InvalidValue(
                'LTC got init="spread" and nonnegative=False, with which its rate may be negative; drop one.'
            )
        super().__init__(
            input_dim, state_dim, form=form, state_dependence=state_dependence, complex_parameters=complex_parameters,
            nonnegative=nonnegative, integrator=integrator or ("implicit" if rho is None else None), rho=rho,
            contraction=contraction, init=init, max_time=max_time, dtype=dtype, key=key,
        )  # fmt: skip

    def _spread_rates(self, max_time: float | int) -> None:
        # The rate is f itself: all conductances shrink in proportion, and e_leak with them. So does the leak in z,
        # which no longer balances k_u: the state's own synapse does, with a slope that hardly feeds back.
        rates = spread_rates(self.state_dim, max_time, self.e_leak.dtype)
        g_x, g_u, g_leak = self._conductances()
        scale = rates / self._mean_forget()
        self.g_x = None if g_x is None else inverse_softplus(g_x * scale)
        self.g_u, self.g_leak = inverse_softplus(g_u * scale), inverse_softplus(g_leak * scale)
        self.e_leak = self.e_leak * rates
        if self.a_x is not None and self.k_x is not None:
            total = self.k_u if self.form == "paper" else jnp.sum(self.k_u, 0)
            self.a_x, self.k_x = self.a_x / 4, (-total - 2 * g_leak * scale).astype(self.k_x.dtype)

    def _rates(self, x, f, z, drive, slope):
        del x, drive, slope
        return f, self.e_leak * z, None

    def _limits(self, f, z):
        low, high = f
        largest = jnp.maximum(abs(z[0]), abs(z[1]))
        positive = jnp.where(low > 0, low, jnp.nan)  # no bound where the rate may vanish
        rest = jnp.abs(self.e_leak) * largest / positive
        return low, high, rest, 1 / positive, rest / positive, jnp.abs(self.e_leak) / positive
