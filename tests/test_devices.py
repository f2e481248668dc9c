"""Many devices give what one gives: states, gradients, trained models; and what they exchange is what the docs say."""

import json
import os
import re
import socket
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CELLS, CORE, FAMILY, Case, distance, normal

from lrcssm import DEER, ModelConfig, SequenceModel, Sequential, Sharded, Status, cells, solve
from lrcssm.cli.devices import DeviceOptions, open_mesh
from lrcssm.data import Batch, Cases
from lrcssm.models import trainable
from lrcssm.training import TrainingConfig, fit, make_mesh
from lrcssm.training.devices import spread
from lrcssm.training.folder import RunError

LOCAL = {"Sequential": Sequential(), "DEER": DEER()}


@pytest.mark.parametrize(
    "local", [name if name == "Sequential" else pytest.param(name, marks=pytest.mark.slow) for name in LOCAL]
)
@pytest.mark.parametrize("cell", [*CORE, *(pytest.param(name, marks=pytest.mark.slow) for name in FAMILY)])
def test_states(cell, local):
    case = Case(cell, 23, dt="steps", masked=True)  # a length that two devices do not divide
    solution = solve(case.cell, case.inputs, **case.options, solver=Sharded(make_mesh(1, 2), LOCAL[local]))
    assert distance(solution.states, case.states()) < 1e-10
    assert solution.status.shape == solution.iterations.shape == solution.residual.shape == (2,)
    assert jnp.all(solution.ok) and jnp.all(solution.iterations <= 1)
    assert "Sharded(1 batch × 2 sequence" in solution.solver


@pytest.mark.parametrize(
    "cell", ["LRC paper", *(pytest.param(name, marks=pytest.mark.slow) for name in CELLS if name != "LRC paper")]
)
@pytest.mark.parametrize("shape", [(1, 2), pytest.param((2, 1), marks=pytest.mark.slow)], ids=str)
def test_gradients(cell, shape):
    case = Case(cell, 12)

    def run(solver):
        @eqx.filter_jit
        @eqx.filter_grad
        def gradient(given):
            cell, inputs, state = given
            states = solve(cell, inputs, **(case.options | {"state": state}), solver=solver).states
            return jnp.sum(case.cotangent * states).real

        return gradient((case.cell, case.inputs, case.state))

    one, many = run(Sequential()), run(Sharded(make_mesh(*shape), Sequential()))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
        assert distance(b, a) < 1e-10


def test_a_function_of_the_users_own():
    w = 0.3 * normal(np.random.default_rng(0), (3, 3), jnp.float64)
    inputs = normal(np.random.default_rng(1), (7, 2, 3), jnp.float64)

    def run(w, solver):
        return solve(lambda x, u: jnp.tanh(w @ x + u), inputs, state=jnp.zeros(3), solver=solver).states

    one, many = (
        jax.vjp(lambda w, solver=solver: run(w, solver), w) for solver in (Sequential(), Sharded(make_mesh(1, 2)))
    )
    assert distance(many[0], one[0]) < 1e-12
    assert distance(many[1](one[0])[0], one[1](one[0])[0]) < 1e-10


def test_what_is_filled_in_is_harmless():
    """A length that two devices do not divide, and a drive that has no derivative at 0."""
    inputs = jnp.asarray(np.random.default_rng(0).uniform(1, 2, (7, 2, 1)))

    def total(w, solver):
        return jnp.sum(solve(lambda x, u: 0.5 * x + w * jnp.log(u), inputs, state=jnp.zeros(1), solver=solver).states)

    one, many = (jax.grad(total)(jnp.asarray(2.0), solver) for solver in (Sequential(), Sharded(make_mesh(1, 2))))
    assert distance(many, one) < 1e-12


def test_jacobians_may_overflow_where_no_state_does():
    """A chaotic map: the Jacobian of half of it is infinite in single precision."""
    inputs, state = jnp.zeros((800, 1, 1), jnp.float32), jnp.full(1, 0.3, jnp.float32)
    run = lambda step, solver: solve(step, inputs, state=state, solver=solver, throw=False)
    logistic = lambda x, u: jnp.float32(3.9) * x * (1 - x) + u
    found = run(logistic, Sharded(make_mesh(1, 2)))
    assert jnp.all(found.ok) and distance(found.states, run(logistic, Sequential()).states) < 1e-6
    # What overflows itself says so, and not that the second part began with infinity.
    for solver in (Sequential(), Sharded(make_mesh(1, 2))):
        assert Status(int(run(lambda x, u: 2 * x + u, solver).status[0])) == Status.UNSTABLE


@pytest.mark.slow
def test_layers_of_many_states_have_any_batch_axes():
    model = SequenceModel(ModelConfig(**(SMALL | {"num_blocks": 1}), cell="S6"), jax.random.key(0))
    inputs = normal(np.random.default_rng(1), (7, 2, 3, 2), jnp.float64)
    many = lambda inputs: model(inputs, solver=Sharded(make_mesh(2, 1)))[0]
    whole = model(inputs)[0]
    assert distance(many(inputs), whole) < 1e-12 and distance(many(inputs[:, 1, 2]), whole[1, 2]) < 1e-12


@pytest.mark.slow
def test_forward_mode():
    case = Case("LRC paper", 9)
    along = normal(np.random.default_rng(6), case.inputs.shape, jnp.float64)
    run = lambda solver: jax.jvp(lambda u: solve(case.cell, u, solver=solver).states, (case.inputs,), (along,))[1]
    assert distance(run(Sharded(make_mesh(1, 2))), run(Sequential())) < 1e-10


@pytest.mark.parametrize(
    "name", ["LRC", *(pytest.param(name, marks=pytest.mark.slow) for name in ("LSTM", "DenseLRC"))]
)
def test_what_is_exchanged(name):
    """One exchange in each iteration: the last state of each part and the Jacobian of its map, whatever the length."""
    batch, units, itemsize = 4, 6, 8
    solver = Sharded(make_mesh(1, 2), Sequential())
    cell = cells.ALL[name](3, units // (2 if name == "LSTM" else 1), key=jax.random.key(0))
    jacobian = {"LRC": units, "LSTM": 2 * units, "DenseLRC": units**2}[name]  # numbers, for each sample
    for length in (16, 64):
        run = jax.jit(lambda inputs: solve(cell, inputs, solver=solver, throw=False).states)
        text = run.lower(jnp.zeros((length, batch, 3))).compile().as_text()
        assert gathered_in_loops(text) == 2 * batch * (units + jacobian) * itemsize


def gathered_in_loops(program: str) -> int:
    """Bytes of the all-gathers in the bodies of the loops of a compiled program."""
    bodies = set(re.findall(r"body=%?([\w.\-]+)", program))
    total, inside = 0, False
    for line in program.splitlines():
        if start := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            inside = start[1] in bodies
        if inside and (found := re.match(r"\s*(?:ROOT )?%?[\w.\-]+ = (.*?) all-gather\(", line)):
            for kind, shape in re.findall(r"[a-z]+(\d+)\[([\d,]*)\]", found[1]):
                total += int(kind) // 8 * int(np.prod([int(n) for n in shape.split(",")]))
    return total


SMALL = {"input_dim": 2, "output_dim": 2, "hidden_dim": 6, "state_dim": 4, "num_blocks": 2}


def some_cases():
    rng = np.random.default_rng(0)
    return Cases.of([rng.normal(size=(20 + 3 * (i % 2), 2)) for i in range(14)], targets=np.arange(14) % 2)


@pytest.mark.slow
@jax.numpy_dtype_promotion("standard")  # optax counts in integers
def test_training_is_that_of_one_device(tmp_path):
    cases = some_cases()
    model = SequenceModel(ModelConfig(**SMALL, dropout=0.2), jax.random.key(0)).with_statistics(*cases.statistics())
    config = TrainingConfig(steps=6, batch=3, check_every=3)
    one = fit(model, cases, cases, config)
    mesh = jax.make_mesh((2, 1), ("batch", "sequence"))  # whose axes are of another kind than those of make_mesh
    many = fit(model, cases, cases, config, mesh=mesh, checkpoint=tmp_path / "run")
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(many.model), strict=True):
        assert distance(b, a) < 1e-5
    assert one.history[-1].scores["accuracy"] == many.history[-1].scores["accuracy"]
    assert len({d for leaf in jax.tree.leaves(many.model) for d in leaf.devices()}) == 1
    # What was begun on two devices may be gone on with on one.
    again = fit(model, cases, cases, config, checkpoint=tmp_path / "run", resume=True)
    assert again.step == many.step and again.history[-1].step == 6


def test_a_mesh_of_the_users_own_axes():
    """Cases stay whole where there is no axis for them; axes may have other names."""
    inputs, targets = np.zeros((6, 3, 2)), np.zeros(3)
    for shape, names, parts in (((2,), ("sequence",), (3, 3, 2)), ((2, 1), ("rows", "time"), (6, 3, 2))):
        mesh = jax.make_mesh(shape, names)
        solver = Sharded(mesh, sequence=names[-1], batch="rows")
        assert solver.batch_shards == (2 if "rows" in names else 1)
        placed = spread(Batch(inputs, None, None, targets, np.ones(3)), solver)
        assert placed.inputs.addressable_shards[0].data.shape == parts and placed.mask is None
        assert placed.targets.addressable_shards[0].data.shape == (3,)


def test_mistakes():
    case = Case("LRC paper", 5)
    mesh = make_mesh(1, 2)
    with pytest.raises(ValueError, match="sequence='time' and a mesh with the axes batch, sequence; name"):
        Sharded(mesh, sequence="time")
    with pytest.raises(ValueError, match="got a guess, which Sharded cannot use"):
        solve(case.cell, case.inputs, guess=jnp.zeros((5, 2, case.state.shape[-1])), solver=Sharded(mesh))
    with pytest.raises(ValueError, match="needs 64 devices; there are 2"):
        make_mesh(8, 8)
    with pytest.raises(ValueError, match="make_mesh got batch=0; give a whole number"):
        make_mesh(0)
    model = SequenceModel(ModelConfig(**SMALL), jax.random.key(0))
    with pytest.raises(ValueError, match="chunk=4, but it is to be solved over many devices"):
        model(jnp.zeros((8, 2, 2)), chunk=4, solver=Sharded(mesh))
    with pytest.raises(ValueError, match="give its mesh as mesh="):
        fit(model, some_cases(), solver=Sharded(mesh))
    for options, text in (
        ({"devices": "many"}, "--devices got 'many'; give a number of devices that share each batch, as in 4"),
        ({"devices": "0"}, "--devices got '0'"),
        ({"devices": "64"}, "--devices 64: only 2 devices are available"),
        ({"processes": 2}, "--coordinator, --processes and --process belong together"),
        ({"devices": "3", "processes": 2, "process": 0, "coordinator": "localhost:1"}, "shared evenly by 2 processes"),
        ({"processes": 2, "process": 2, "coordinator": "localhost:1"}, "--process 2: give a number from 0 to 1"),
    ):
        with pytest.raises(RunError, match=text):
            open_mesh(DeviceOptions(**options), {})
    assert open_mesh(DeviceOptions(), {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}) is None


IN_EIGHT = """
import jax, jax.numpy as jnp, numpy as np, json, sys
import lrcssm
from lrcssm.data import Cases
from lrcssm.training import TrainingConfig, fit, make_mesh
rng = np.random.default_rng(0)
cases = Cases.of([rng.normal(size=(50 + 7 * (i % 3), 2)) for i in range(40)], targets=np.arange(40) % 2)
config = lrcssm.ModelConfig(input_dim=2, output_dim=2, hidden_dim=8, state_dim=8, num_blocks=2, **json.loads(sys.argv[1]))
model = lrcssm.SequenceModel(config, jax.random.key(0)).with_statistics(*cases.statistics())
training = TrainingConfig(steps=50, batch=6, check_every=25)
one, many = fit(model, cases, cases, training), fit(model, cases, cases, training, mesh=make_mesh(2, 4))
weights = lambda fitted: {jax.tree_util.keystr(p): a for p, a in jax.tree_util.tree_leaves_with_path(fitted.model)}
one_has, many_has = weights(one), weights(many)
apart = max(float(jnp.max(jnp.abs(one_has[p] - many_has[p]))) for p in one_has)
print(json.dumps([apart, one.history[-1].loss, many.history[-1].loss]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{}, {"cell": "LSTM"}, {"cell": "S6"}, {"cell": "Mamba"}, {"pool": "mean-max-std", "differences": True,
      "bidirectional": True, "dropout": 0.3}, {"patch": 4, "time": True, "pool": "attention"}],
    ids=lambda fields: " ".join(map(str, fields.values())) or "default",
)  # fmt: skip
def test_eight_devices_fifty_steps(fields):
    environ = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", IN_EIGHT, json.dumps(fields)], env=environ, capture_output=True, text=True, check=True
    )
    apart, one, many = json.loads(done.stdout.splitlines()[-1])
    assert apart < 2e-5 and abs(one - many) < 1e-5


def start(folder, *more, port, process, processes=2, slurm=False):
    command = [
        sys.executable, "-m", "lrcssm", "train", "digits", "--patch", "8", "--hidden-dim", "8", "--state-dim", "8", "--num-blocks", "1",
        "--batch", "8", "--check-every", "5", "--out", str(folder), *more,
    ]  # fmt: skip
    environ = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    if slurm:
        own = {"JOB_ID": port, "STEP_NODELIST": "localhost", "NTASKS": processes, "PROCID": process, "LOCALID": process}
        environ |= {f"SLURM_{name}": str(value) for name, value in own.items()}
    elif processes > 1:
        command += ["--coordinator", f"localhost:{port}", "--processes", str(processes), "--process", str(process)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def free_port():
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("slurm", [False, True])
def test_two_processes_over_the_network(tmp_path, slurm):
    """Two processes with one device each end where one process with two devices does."""
    port = free_port()
    more = ("--steps", "10", "--devices", "1x2")
    both = [start(tmp_path / "two", *more, port=port, process=i, slurm=slurm) for i in (0, 1)]
    ends = [one.communicate(timeout=240) for one in both]
    assert [one.returncode for one in both] == [0, 0], ends
    assert "test: accuracy" in ends[0][0] and ends[1][0] == ""
    alone = start(tmp_path / "one", "--steps", "10", port=port, process=0, processes=1)
    text = alone.communicate(timeout=240)
    assert alone.returncode == 0, text
    two, one = (json.loads((tmp_path / name / "scores.json").read_text()) for name in ("two", "one"))
    assert two["log_loss"] == pytest.approx(one["log_loss"], rel=1e-4) and two["cases"] == one["cases"]


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "slurm"), [(0, False), (1, False), (1, True)])
def test_one_of_two_is_killed(tmp_path, victim, slurm):
    """The other one ends with a message in less than a minute, and the run can be resumed."""
    port = free_port()
    more = ("--steps", "100000", "--devices", "2")
    both = [start(tmp_path, *more, port=port, process=i, slurm=slurm) for i in (0, 1)]
    assert step_of(both[0], at_least=20)
    both[victim].kill()
    both[victim].communicate()
    _, text = both[1 - victim].communicate(timeout=60)
    assert both[1 - victim].returncode == 2 and "another process of this run is gone" in text.splitlines()[-1]
    assert "--resume" in text.splitlines()[-1]
    one = start(tmp_path, *more, "--resume", port=port, process=0, processes=1)
    first = step_of(one)
    one.kill()
    one.communicate()
    assert first > 5  # where a run from the beginning looks first


def step_of(process, at_least=0):
    """The first step, from `at_least` on, that a process reports."""
    said = []
    for line in iter(process.stderr.readline, ""):
        said.append(line)
        found = re.match(r"step (\d+)/", line)
        if found is not None and int(found[1]) >= at_least:
            return int(found[1])
    raise AssertionError("".join(said))


def test_a_batch_that_does_not_divide_stays_whole():
    case = Case("LRC paper", 8, batch=(3,))
    solution = solve(case.cell, case.inputs, **case.options, solver=Sharded(make_mesh(2, 1)))
    assert distance(solution.states, case.states()) < 1e-10


@pytest.mark.slow
def test_models_with_states_of_many_numbers():
    """S6 is solved in pieces, on each device."""
    model = SequenceModel(ModelConfig(**(SMALL | {"cell": "S6"})), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (21, 2, 2), jnp.float64)

    def run(solver):
        @eqx.filter_jit
        @eqx.filter_value_and_grad
        def total(learned, rest):
            return jnp.sum(eqx.combine(learned, rest)(inputs, solver=solver)[0] ** 2)

        return total(*eqx.partition(model, trainable(model)))

    for a, b in zip(jax.tree.leaves(run(Sequential())), jax.tree.leaves(run(Sharded(make_mesh(1, 2)))), strict=True):
        assert distance(b, a) < 1e-10
