"""Plain loops in float64 numpy, written from the equations, as references for the tests, without any code of lrcssm."""

import numpy as np


def sigmoid(z):
    return 0.5 * (1 + np.tanh(0.5 * z))


def softplus(z):
    return np.log1p(np.exp(z))


def _conductances(p, x, u, slope=1.0):
    """f and z of the diagonal liquid cells."""
    g = softplus if p.nonnegative else (lambda value: value)
    leak = g(p.g_leak)
    if p.form == "paper":
        synapse = sigmoid(u @ p.a_u + p.b_u)
        f, z = g(p.g_u) * synapse + leak, p.k_u * synapse + leak
    else:
        r = sigmoid(p.a_u * (u - p.b_u))
        f, z = r @ g(p.g_u) + leak, r @ p.k_u + leak
    if p.state_dependence != "none":
        a = slope * p.a_x
        own = sigmoid(a * x + p.b_x if p.form == "paper" else a * (x - p.b_x))
        z = z + p.k_x * own
        if p.state_dependence == "both":
            f = f + g(p.g_x) * own
    return f, z


def _elastance(p, x, u, slope=1.0):
    eps = p.v
    if p.w_x is not None:
        eps = eps + slope * p.w_x * x
    if p.w_u is not None:
        eps = eps + u @ p.w_u
    if p.s is None:
        return sigmoid(eps)
    return sigmoid(eps + np.abs(p.s)) - sigmoid(eps - np.abs(p.s))


def _advance(integrator, x, rate, force, dt):
    if integrator == "euler":
        return x + dt * (force - rate * x)
    if integrator == "implicit":
        return (x + dt * force) / (1 + dt * rate)
    return np.exp(-dt * rate) * x + (1 - np.exp(-dt * rate)) * force / rate


def lrc(p, x, u, dt):
    f, z = _conductances(p, x, u)
    e = _elastance(p, x, u)
    return _advance(p.integrator, x, e * sigmoid(f), e * np.tanh(z) * p.e_leak, dt)


def lrc_contractive(p, x, u, dt):
    """The paper's form with Euler's step and rho: |dx'/dx| <= rho because the slopes are made small enough."""
    lowest = sigmoid(p.g_leak + np.minimum(p.g_x, 0) + np.minimum(p.g_u, 0))
    rest = np.abs(p.e_leak) / lowest
    by_f, by_z = np.abs(p.g_x * p.a_x) / 4, np.abs(p.k_x * p.a_x) / 4
    total = ((1 - lowest) * by_f + np.abs(p.w_x)) * (p.rho + 1) * rest + rest * (by_z + (1 - lowest) * by_f)
    slope = np.minimum(1, p.rho * (1 - 1e-4) / total)
    f, z = _conductances(p, x, u, slope)
    e = _elastance(p, x, u, slope)
    return p.rho * (1 - dt * e * sigmoid(f)) * x + dt * e * np.tanh(z) * p.e_leak


def stc(p, x, u, dt):
    f, z = _conductances(p, x, u)
    return _advance(p.integrator, x, sigmoid(f), np.tanh(z) * p.e_leak, dt)


def ltc(p, x, u, dt):
    f, z = _conductances(p, x, u)
    return _advance(p.integrator, x, f, z * p.e_leak, dt)


def _keep(gate, dt):
    """(1 - gate)^dt; a complex power of a complex gate by its logarithm."""
    return (1 - gate) ** dt


def gru(p, x, u, dt):
    z = sigmoid(p.w_z * x + u @ p.u_z + p.b_z)
    r = sigmoid(p.w_r * x + u @ p.u_r + p.b_r)
    c = np.tanh(p.w_c * (r * x) + u @ p.u_c + p.b_c)
    return _keep(z, dt) * x + (1 - _keep(z, dt)) * c


def mgu(p, x, u, dt):
    f = sigmoid(p.w_f * x + u @ p.u_f + p.b_f)
    c = np.tanh(p.w_c * (f * x) + u @ p.u_c + p.b_c)
    return _keep(f, dt) * x + (1 - _keep(f, dt)) * c


def lstm(p, x, u, dt):
    n = x.shape[-1] // 2
    h, c = x[..., :n], x[..., n:]
    i, f, o = (sigmoid(p.w[j] * h + u @ p.u[j] + p.b[j]) for j in range(3))
    g = np.tanh(p.w[3] * h + u @ p.u[3] + p.b[3])
    c = f**dt * c + dt * i * g
    return np.concatenate([o * np.tanh(c), c], -1)


def lstm_cell(p, x, u, dt):
    i, f = (sigmoid(p.w[j] * x + u @ p.u[j] + p.b[j]) for j in range(2))
    return f**dt * x + dt * i * np.tanh(p.w[3] * x + u @ p.u[3] + p.b[3])


def _dense(p, x, u):
    """f and z, synapse by synapse, as the paper's sums over all sources are written."""
    y = np.concatenate([x, u], -1)
    g = softplus(p.g) if p.nonnegative else p.g
    leak = softplus(p.g_leak) if p.nonnegative else p.g_leak
    f, z = np.zeros_like(x) + leak, np.zeros_like(x) + leak
    for j in range(y.shape[-1]):
        open = sigmoid(p.a[j] * y[..., j, None] + p.b[j])
        f, z = f + g[j] * open, z + p.k[j] * open
    return y, f, z


def dense_lrc(p, x, u, dt):
    y, f, z = _dense(p, x, u)
    e = sigmoid(y @ p.w + p.v)
    return _advance(p.integrator, x, e * sigmoid(f), e * np.tanh(z) * p.e_leak, dt)


def dense_stc(p, x, u, dt):
    _, f, z = _dense(p, x, u)
    return _advance(p.integrator, x, sigmoid(f), np.tanh(z) * p.e_leak, dt)


def dense_ltc(p, x, u, dt):
    _, f, z = _dense(p, x, u)
    return _advance(p.integrator, x, f, z * p.e_leak, dt)


def _halves(matrix):
    """A complex matrix that is stored as [Re, Im]."""
    n = matrix.shape[-1] // 2
    return matrix[..., :n] + 1j * matrix[..., n:]


def lru(p, x, u, dt):
    rate = -np.exp(p.nu) + 1j * np.exp(p.theta)
    return np.exp(dt * rate) * x + np.exp(p.gamma) * (u @ _halves(p.b))


def s5(p, x, u, dt):
    rate = np.minimum(p.lambda_re.real, -1e-4) + 1j * p.lambda_im
    h = dt * np.exp(p.log_step)
    if p.discretisation == "zoh":
        keep = np.exp(h * rate)
        gain = (keep - 1) / rate
    else:
        keep, gain = (1 + h * rate / 2) / (1 - h * rate / 2), h / (1 - h * rate / 2)
    return keep * x + gain * (u @ _halves(p.b))


def linoss(p, x, u, dt):
    """Each unit's two equations, solved for the new velocity and position; real and imaginary parts alike."""
    h = dt * sigmoid(p.step_logit)
    n = h.shape[-1]
    a, g = p.a, np.zeros(n)
    if p.discretisation == "damped":
        g = p.g
        root = np.sqrt(1 + h * g)
        a = np.clip(a, (root - 1) ** 2 / h**2, (root + 1) ** 2 / h**2)
    h, a, g = (np.broadcast_to(value, (*x.shape[:-1], n)) for value in (h, a, g))
    force, new = u @ p.b, np.empty_like(x)
    implicit = p.discretisation == "im"
    for where in np.ndindex(*x.shape[:-1], n):
        k, (batch, i) = h[where], (where[:-1], where[-1])
        for part in (i, n + i):
            z, y = x[(*batch, part)], x[(*batch, 2 * n + part)]
            matrix = [[1 + k * g[where], k * a[where] if implicit else 0], [-k, 1]]
            known = [z + k * (force[(*batch, part)] - (0 if implicit else a[where] * y)), y]
            new[(*batch, part)], new[(*batch, 2 * n + part)] = np.linalg.solve(matrix, known)
    return new


def s6(p, x, u, dt):
    features, states = p.a.shape
    steps = dt * softplus(u @ p.w_delta @ p.w_step + p.b_step)
    b = u @ p.w_b
    new = np.empty_like(x)
    for h in range(features):
        for n in range(states):
            i = h * states + n
            new[..., i] = np.exp(-steps[..., h] * np.exp(p.a[h, n])) * x[..., i] + steps[..., h] * b[..., n] * u[..., h]
    return new


def s4(p, x, u, dt, liquid=False):
    features, states = p.nu.shape
    new = np.empty_like(x)
    for h in range(features):
        step = (dt * np.exp(p.log_step[h]))[..., 0] if np.ndim(dt) else dt * np.exp(p.log_step[h])
        for n in range(states):
            i = h * states + n
            rate = -np.exp(p.nu[h, n]) + 1j * p.omega[h, n]
            keep = np.exp(step * rate)
            gain = (keep - 1) / rate * (p.b[0, h, n] + 1j * p.b[1, h, n] if liquid else 1)
            factor = keep + gain * u[..., h] if liquid else keep
            new[..., i] = factor * x[..., i] + gain * u[..., h]
    return new


def liquid_s4(p, x, u, dt):
    return s4(p, x, u, dt, liquid=True)


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
            value = getattr(p, name)
            return np.asarray(value, wide) if hasattr(value, "dtype") else value

    x, states = np.asarray(state, wide), []
    for t in range(inputs.shape[0]):
        h = 1.0 if dt is None else np.asarray(dt, np.float64)
        if dt is not None and h.ndim:
            h = h[t][..., None]
        new = step(Wide(), x, np.asarray(inputs[t], wide), h)
        x = new if mask is None else np.where(np.asarray(mask)[t][..., None], new, x)
        states.append(x)
    return np.stack(states)
