"""Solves one LRC layer four ways and shows that they agree: states, gradients, iterations and time."""

import jax

import lrcssm


def main():
    length, batch, inputs, states = 10_000, 4, 16, 32
    cell = lrcssm.cells.LRC(inputs, states, key=jax.random.key(0))
    sequence = jax.random.normal(jax.random.key(1), (length, batch, inputs))

    print(
        f"One LRC layer: {length:,} steps, batch {batch}, {inputs} inputs, {states} states, on {jax.default_backend()}."
    )
    print(lrcssm.check_structure(cell))
    print()
    solvers = (lrcssm.Sequential(), lrcssm.DEER(), lrcssm.ELK(), lrcssm.Jacobi())
    rows = lrcssm.check_agreement(cell, sequence, solvers=solvers)
    print("ms: states and the gradient of all inputs, once compiled")
    print()
    worst = max(row.difference for row in rows)
    print(
        f"All four agree to {worst:.0e} in the states and {max(row.gradient_difference for row in rows):.0e} in the gradient."
    )
    print(f"solve() with solver=Auto() takes {lrcssm.solve(cell, sequence).solver} here.")


if __name__ == "__main__":
    main()
