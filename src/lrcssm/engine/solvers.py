"""The ways of evaluating a recurrence over time, as frozen dataclasses: what to do, not how it is done.

All of them give the same states. See the page "How to choose a solver" for what each one costs.
"""

import dataclasses

import jax


def _check_tolerances(solver) -> None:
    name = type(solver).__name__
    for field in ("rtol", "atol"):
        value = getattr(solver, field)
        if value is not None and not value >= 0:
            raise ValueError(f"{name} got {field}={value!r}; a tolerance is a number that is not negative.")
    if solver.max_steps is not None and not solver.max_steps >= 1:
        raise ValueError(f"{name} got max_steps={solver.max_steps!r}; at least one iteration must be allowed.")


@dataclasses.dataclass(frozen=True)
class Sequential:
    """One step after the other. Always right, the fastest by far on a CPU, and depth T on everything else.

    ```python
    import jax, jax.numpy as jnp, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    states = lrcssm.solve(cell, jnp.ones((100, 3)), solver=lrcssm.Sequential()).states
    ```

    **Arguments:**

    - `chunk`: how many steps go through drive and recurrence at a time, so that they stay in the cache, forward and
        backward. `None` chooses it from the sizes.
    """

    chunk: int | None = None

    def __post_init__(self):
        if self.chunk is not None and not self.chunk >= 1:
            raise ValueError(f"Sequential got chunk={self.chunk!r}; a chunk holds at least one step.")


@dataclasses.dataclass(frozen=True)
class DEER:
    """Newton's method on the whole sequence: each iteration linearises the cell at all steps and solves the linear
    recurrence by an associative scan (Lim et al. 2024). Exact for diagonal, 2×2 and dense Jacobians.

    **Arguments:**

    - `quasi`: keep only the diagonal of a dense Jacobian (Gonzalez et al. 2024): cheaper iterations, more of them.
        For a diagonal cell it changes nothing. Gradients are exact all the same.
    - `rtol`, `atol`: done when `|x_t − F(x_{t−1}, u_t)| ≤ rtol · size_t + atol` for every unit at every step, where
        `size_t` is `|x_t| + |J_t| |x_{t−1}|` of that unit; no other step, and no unit that `J_t` does not couple, enters.
        States before the step that differ in their last digits alone count as the same. The default `rtol=None` is 8
        units of rounding of the state's dtype: as good as a sequential sweep.
    - `max_steps`: iterations at most; `None` is 100.
    """

    quasi: bool = False
    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def __post_init__(self):
        _check_tolerances(self)


@dataclasses.dataclass(frozen=True)
class ELK:
    """Damped Newton (Levenberg–Marquardt): each iteration is a Kalman smoother over time, in parallel form (Gonzalez
    et al. 2024). It does not overflow where `DEER` does, for some more iterations.

    **Arguments:**

    - `quasi`: keep only the diagonal of a dense Jacobian.
    - `trust`: the variance σ² = 1/λ of the trust region. `None` adapts the damping λ for each sample: more after a step
        that would make the states ten times as large (it is not taken), less after any other. A number fixes it.
    - `rtol`, `atol`: as for `DEER`.
    - `max_steps`: iterations at most; `None` is 1000.
    """

    quasi: bool = False
    trust: float | None = None
    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def __post_init__(self):
        _check_tolerances(self)
        if self.trust is not None and not self.trust > 0:
            raise ValueError(f"ELK got trust={self.trust!r}; the variance of a trust region is positive (or None).")


@dataclasses.dataclass(frozen=True)
class Jacobi:
    """The zeroth order: every step is evaluated from the last iterate's states, without any Jacobian. Right after T
    iterations at the latest, and after about as many as the cell remembers steps.

    **Arguments:**

    - `rtol`, `atol`: as for `DEER`.
    - `max_steps`: iterations at most; `None` is T + 1.
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = None

    def __post_init__(self):
        _check_tolerances(self)


@dataclasses.dataclass(frozen=True)
class Auto:
    """Chooses by backend and structure, and never leaves a solve unfinished: what Newton does not solve is computed
    step by step, and the status says so. `Solution.solver` names the choice.

    **Arguments:**

    - `parallel`: `None` takes `Sequential` on a CPU and Newton elsewhere, as measured; `True` and `False` force it.
    - `newton`: the parallel solver; `None` is `DEER()`, for a dense cell `DEER(quasi=True)`.
    """

    parallel: bool | None = None
    newton: DEER | ELK | Jacobi | None = None


Local = Sequential | DEER | ELK | Jacobi | Auto


@dataclasses.dataclass(frozen=True)
class Sharded:
    """Splits time over devices: each solves its own part, and what their parts begin with is found by Newton's method, with
    one small exchange in each iteration. Of P devices at most P − 1 iterations are needed, most often two.

    ```python
    import jax, lrcssm

    mesh = jax.make_mesh((1, jax.device_count()), ("batch", "sequence"))
    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 4, 3))
    states = lrcssm.solve(cell, inputs, solver=lrcssm.Sharded(mesh)).states
    ```

    Derivatives are exact, forward and reverse, but only the first.

    **Arguments:**

    - `mesh`: the devices.
    - `solver`: how each of them solves its part.
    - `sequence`, `batch`: the axes of the mesh over which time and the first batch axis are split. A mesh may have no such
        `batch`, and a batch that its devices do not divide is not split.
    """

    mesh: jax.sharding.Mesh
    solver: Local = Auto()
    sequence: str = "sequence"
    batch: str = "batch"

    def __post_init__(self):
        if not isinstance(self.mesh, jax.sharding.Mesh):
            raise TypeError(
                f"Sharded got a mesh of type {type(self.mesh).__name__}; give the devices as a jax.sharding.Mesh, e.g. "
                'jax.make_mesh((1, jax.device_count()), ("batch", "sequence")).'
            )
        if self.sequence not in self.mesh.shape:
            raise ValueError(
                f"Sharded got sequence={self.sequence!r} and a mesh with the axes {', '.join(self.mesh.axis_names)}; name "
                "the one over which time is split."
            )
        # With axes of the kind over which the compiler decides how arrays lie, as everything around a solve expects.
        object.__setattr__(self, "mesh", jax.sharding.Mesh(self.mesh.devices, self.mesh.axis_names))

    def __str__(self) -> str:
        axes = " × ".join(f"{size} {name}" for name, size in self.mesh.shape.items())
        return f"Sharded({axes}, {self.solver})"


Solver = Local | Sharded


SOLVERS: dict[str, Solver] = {"auto": Auto(), "sequential": Sequential(), "deer": DEER(), "elk": ELK()}
"""Those that have a name on the command line and in the estimators."""
