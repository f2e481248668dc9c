"""Plain loops in float64 numpy, written from the equations: what the tests compare with. Nothing of lrcssm is used."""

import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lrc_paper(p, x, u, dt):
    synapse = sigmoid(u @ p.a_u + p.b_u)
    own = sigmoid(p.a_x * x + p.b_x)
    f = p.g_x * own + p.g_u * synapse + p.g_leak
    z = p.k_x * own + p.k_u * synapse + p.g_leak
    eps = p.w_x * x + u @ p.w_u + p.v
    dx = -sigmoid(f) * sigmoid(eps) * x + np.tanh(z) * sigmoid(eps) * p.e_leak
    return x + dt * dx


def lrc_released(p, x, u, dt):
    r = sigmoid(p.a_u * (u - p.b_u))
    y = sigmoid(p.a_x * (x - p.b_x))
    s = sigmoid(p.g_leak + r @ p.g_u + p.g_x * y)
    b = p.e_leak * np.tanh(p.g_leak + r @ p.k_u + p.k_x * y)
    e = sigmoid(p.w_x * x + p.v) * dt
    return x + e * (-s * x + b)


def dense_toy(p, x, u, dt):
    return x + dt * (np.tanh(x @ p.w + u @ p.v) - x)


def block_toy(p, x, u, dt):
    """Two coupled halves: a damped, non-linear oscillator for each unit."""
    n = x.shape[-1] // 2
    q, s = x[..., :n], x[..., n:]
    drive = u @ p.v
    dq = 0.3 * np.tanh(p.a * s) - 0.2 * q
    return np.concatenate([q + dt * dq, s - dt * (p.b * s + 0.3 * np.sin(q) - drive)], -1)


def loop(step, p, inputs, state, dt=None, mask=None):
    """States of all steps, `(time, ..., state)`; parameters `p` by attribute; everything in float64 or complex128."""
    wide = np.complex128 if np.iscomplexobj(state) else np.float64

    class Wide:
        def __getattr__(self, name):
            return np.asarray(getattr(p, name), wide)

    x, states = np.asarray(state, wide), []
    for t in range(inputs.shape[0]):
        h = 1.0 if dt is None else np.asarray(dt, np.float64)
        if dt is not None and h.ndim:
            h = h[t][..., None]
        new = step(Wide(), x, np.asarray(inputs[t], wide), h)
        x = new if mask is None else np.where(np.asarray(mask)[t][..., None], new, x)
        states.append(x)
    return np.stack(states)
