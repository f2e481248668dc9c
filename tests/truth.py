"""Recurrences in a float64 numpy loop, with the effect of rounding at another precision on their states."""

import numpy as np


def run(step, state, length):
    """The states of all steps, `(length, *state.shape)`; `step(t, state)` computes in the precision of the state."""
    states = []
    for t in range(length):
        state = step(t, state)
        states.append(state)
    return np.stack(states)


def truth_and_reach(step, state, length, eps, draws=8, roundings=8):
    """The states, and how far those of loops that round to `eps` are from them, at most.

    The other loops round their states and what they add to them `roundings` times as coarsely as `eps`, at random; what
    a few of them reach at a step or up to three steps around it is a measure of the sensitivity of the recurrence there.
    """
    rng = np.random.default_rng(0)

    def rounded(t, x):
        new = step(t, x * (1 + roundings * eps * rng.uniform(-1, 1, x.shape)))
        return new + roundings * eps * rng.uniform(-1, 1, x.shape) * np.maximum(np.abs(new), np.abs(x))

    state = np.asarray(state, np.complex128 if np.iscomplexobj(state) else np.float64)
    with np.errstate(all="ignore"):
        truth = run(step, state, length)
        reach = np.zeros(truth.shape)
        for _ in range(draws):
            reach = np.fmax(reach, np.abs(run(rounded, state, length) - truth))
    wide = np.concatenate([np.repeat(reach[:1], 3, 0), reach, np.repeat(reach[-1:], 3, 0)])
    return truth, np.max([wide[i : i + length] for i in range(7)], 0)


def wrong(states, truth, reach, eps):
    """True where states are further from the truth than rounding explains."""
    with np.errstate(all="ignore"):
        return ~(np.abs(states - truth) <= 50 * reach + 200 * eps * np.abs(truth) + np.finfo(np.float32).tiny)
