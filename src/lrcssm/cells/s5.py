"""S5: one complex, diagonal, linear system for all features, which starts as a HiPPO system, in conjugate pairs.

Smith et al. 2023, "Simplified State Space Layers for Sequence Modeling" (P states of 2P, the others are their complex
conjugates; B, C complex matrices, ⊙ elementwise):

    ẋ = Λ x + B u                                 Re Λ is kept at −10⁻⁴ or below
    zoh:       Λ̄ = exp(Δ Λ),  B̄ = (Λ̄ − 1)/Λ · B           exact for an input that is constant over a step
    bilinear:  Λ̄ = (1 + Δ Λ/2) / (1 − Δ Λ/2),  B̄ = Δ / (1 − Δ Λ/2) · B
    x ← Λ̄ x + B̄ u
    y = 2 Re(C x) + D ⊙ u                         input of the next layer

At the start Λ are the eigenvalues with a negative imaginary part of the normal part of the HiPPO-LegS matrix, once for each
block, and B and C are real and complex random matrices in the basis of its eigenvectors:

    A_nk = −√((2n+1)(2k+1)) (n > k), −(n+1) (n = k), 0 (n < k);  S = A + p pᵀ, p_n = √(n + ½);  S = V Λ V*

`dt` multiplies Δ. B is held as [Re B, Im B] and C as [Re C; −Im C], as in `lru.py`.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, DTypeLike, Float, PRNGKeyArray

from ..errors import InvalidValue
from .base import Cell, choose, linear
from .lru import as_complex, as_halves, check_even, log_uniform, real_dtype
from .s4 import hold


def hippo(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors (columns) of the normal part of the HiPPO-LegS matrix, of each conjugate pair the one
    with the negative imaginary part."""
    n = np.arange(size)
    root = np.sqrt(2 * n + 1)
    a = -np.tril(np.outer(root, root), -1) - np.diag(n + 1.0)
    p = np.sqrt(n + 0.5)
    normal = a + np.outer(p, p)  # −½ on its diagonal, and otherwise antisymmetric
    frequencies, vectors = np.linalg.eigh(-1j * (normal + 0.5 * np.eye(size)))
    half = slice(size // 2)
    return -0.5 + 1j * frequencies[half], vectors[:, half]


class S5(Cell):
    """A layer of S5.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.S5(3, 8, blocks=2, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 4), complex
    outputs = cell.read(states, inputs)  # (1000, 3)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: number of features of input and output, and of states, half of which are kept.
    - `blocks`: number of HiPPO systems of `state_dim / blocks` states each at the start; that must be an
        even number.
    - `discretisation`: `"zoh"` or `"bilinear"`.
    - `dt_min`, `dt_max`: the steps Δ, one for each state, are log-uniform between them at the start.
    - `dtype`: of the parameters, real; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    affine = True
    lambda_re: Float[Array, " half"]
    lambda_im: Float[Array, " half"]
    log_step: Float[Array, " half"]
    b: Float[Array, "input state"]
    c: Float[Array, "state input"]
    d: Float[Array, " input"]
    discretisation: Literal["zoh", "bilinear"] = eqx.field(static=True)
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        blocks: int = 1,
        discretisation: Literal["zoh", "bilinear"] = "zoh",
        dt_min: float | int = 0.001,
        dt_max: float | int = 0.1,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        choose("S5", "discretisation", discretisation, ("zoh", "bilinear"))
        check_even("S5", state_dim)
        if blocks < 1 or state_dim % (2 * blocks):
            raise InvalidValue(
                f"S5 got blocks={blocks} for state_dim={state_dim}; each block has state_dim/blocks states, which must be "
                "an even number."
            )
        dtype = real_dtype("S5", dtype)
        self.input_dim, self.state_dim, self.discretisation = input_dim, state_dim, discretisation
        keys = jax.random.split(key, 4)
        eigenvalues, vectors = hippo(state_dim // blocks)
        all_values, basis = np.tile(eigenvalues, blocks), np.kron(np.eye(blocks), vectors)
        self.lambda_re, self.lambda_im = (jnp.asarray(part(all_values), dtype) for part in (np.real, np.imag))
        v_re, v_im = (jnp.asarray(part(basis), dtype) for part in (np.real, np.imag))  # state, half
        draw = jax.nn.initializers.lecun_normal()
        b = draw(keys[0], (state_dim, input_dim), dtype)
        self.b = jnp.concatenate([b.T @ v_re, b.T @ -v_im], -1)  # V* B
        c = jnp.moveaxis(draw(keys[1], (input_dim, state_dim, 2), dtype), -1, 0)
        self.c = jnp.concatenate([c[0] @ v_re - c[1] @ v_im, -(c[0] @ v_im) - c[1] @ v_re], -1).T  # C V
        self.d = jax.random.normal(keys[2], (input_dim,), dtype)
        self.log_step = log_uniform(keys[3], (state_dim // 2,), dtype, dt_min, dt_max, "S5")

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Complex[Array, "... half"]:
        """Zero."""
        return as_complex(jnp.zeros((*batch_shape, self.state_dim), self.d.dtype))

    def drive(self, inputs: Float[Array, "... input"]) -> Complex[Array, "... half"]:
        """B̄ u for a step of `dt` = 1: there the factor of B goes into the matrix."""
        _, gain = self._discretised(1.0)
        return as_complex(linear(inputs, as_halves(gain * as_complex(self.b))))

    def step(
        self,
        state: Complex[Array, "... half"],
        drive: Complex[Array, "... half"],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Complex[Array, "... half"]:
        """The next state, elementwise in the state."""
        keep, gain = self._discretised(dt)
        if not (isinstance(dt, float) and dt == 1):
            drive = gain / self._discretised(1.0)[1] * drive
        return keep * state + drive

    def _discretised(self, dt) -> tuple[Complex[Array, "... half"], Complex[Array, "... half"]]:
        """Λ̄ and the factor of B."""
        h = dt * jnp.exp(self.log_step)
        z = lax.complex(h * jnp.minimum(self.lambda_re, -1e-4), h * self.lambda_im)
        if self.discretisation == "zoh":
            keep, mean = hold(z)
        else:
            mean = 1 / (1 - z / 2)
            keep = (1 + z / 2) * mean
        return keep, h.astype(z.dtype) * mean

    def read(self, state: Complex[Array, "... half"], inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """2 Re(C x) + D ⊙ u."""
        return linear(as_halves(state), 2 * self.c) + self.d * inputs
