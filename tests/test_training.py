"""Training learns, reports its progress, is reproducible, and counts each case once."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lrcssm import DEER, ModelConfig, SequenceModel
from lrcssm.data import Cases, load
from lrcssm.data.batching import arrange, make_batch
from lrcssm.training import Evaluation, TrainingConfig, evaluate, fit, loop, predict
from lrcssm.training.loop import Progress
from lrcssm.training.metrics import class_weights_of, losses
from lrcssm.training.step import Step, TrainState


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def make(**changes):
    fields = {"input_dim": 1, "output_dim": 2, "hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "differences": True}
    fields |= {"cell_options": {"init": "spread", "max_time": 50}, "pool": "mean-max-std"} | changes
    return SequenceModel(ModelConfig(**fields), jax.random.key(0))


def waves(count=40, seed=0, lengths=(30, 48)):
    """Two classes of unequal length that differ in their frequency."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 2, count)
    series = [np.sin(np.arange(rng.choice(lengths)) * (0.2, 0.6)[k] + rng.uniform(0, 6))[:, None] for k in targets]
    return Cases.of(series, targets)


def test_it_learns_and_reports():
    seen = []
    config = TrainingConfig(steps=120, batch=8, check_every=40, learning_rate=1e-2, label_smoothing=0.0)
    fitted = fit(make(), waves(), waves(seed=1), config, report=seen.append)
    assert [epoch.step for epoch in seen] == [40, 80, 120] and fitted.history == tuple(seen)
    assert seen[-1].loss < 0.5 * seen[0].loss
    assert fitted.score == max(epoch.scores["accuracy"] for epoch in seen) >= 0.9
    assert evaluate(fitted.model, waves(seed=1))["accuracy"] == fitted.score


def test_the_same_seed_gives_the_same_bits():
    config = TrainingConfig(steps=6, batch=8, check_every=3)
    runs = [fit(make(dropout=0.2), waves(), None, config) for _ in range(2)]
    for a, b in zip(*(jax.tree.leaves(run.model) for run in runs), strict=True):
        np.testing.assert_array_equal(a, b)
    other = fit(make(dropout=0.2), waves(), None, TrainingConfig(steps=6, batch=8, check_every=3, seed=1))
    assert not np.array_equal(runs[0].model.head.weight, other.model.head.weight)


@pytest.mark.slow
def test_regression():
    cases = waves()
    means = Cases(cases.series, np.array([np.abs(np.diff(one[:, 0])).mean() for one in cases.series], np.float32))
    fitted = fit(
        make(output_dim=1, task="regress"), means, means, TrainingConfig(steps=150, batch=8, learning_rate=1e-2)
    )
    scores = evaluate(fitted.model, means)
    assert scores["r2"] > 0.8


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_batch():
    model, cases = make(), waves(12)
    alone = np.stack([np.asarray(model(jnp.asarray(one))[0]) for one in cases.series])
    for size in (5, 64):
        np.testing.assert_allclose(predict(model, cases, size), alone, rtol=2e-4, atol=2e-5)


def test_scores_against_scikit_learn():
    from sklearn import metrics

    cases = waves(60)
    logits = predict(make(), cases).astype(np.float64)
    scores = evaluate(make(), cases)
    guesses, shares = logits.argmax(-1), np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(cases.targets, guesses))
    assert scores["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(cases.targets, guesses))
    assert scores["f1"] == pytest.approx(metrics.f1_score(cases.targets, guesses, average="macro", zero_division=0))
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(cases.targets, shares))


def test_losses_and_weights():
    outputs, targets = jnp.array([[2.0, 0.0], [0.0, 1.0]]), jnp.array([0, 0])
    want = [-np.log(np.exp(2) / (np.exp(2) + 1)), -np.log(1 / (1 + np.e))]
    np.testing.assert_allclose(losses(make(), outputs, targets, None, 0.0), want, rtol=1e-5)
    np.testing.assert_allclose(class_weights_of(Cases.of(np.ones((4, 2, 1)), [0, 0, 0, 1]), "balanced"), [2 / 3, 2])
    assert class_weights_of(waves(), None) is None


def test_patience_and_mistakes():
    never = fit(make(), waves(), waves(), TrainingConfig(steps=100, check_every=1, patience=2, learning_rate=1e-9))
    assert len(never.history) <= 6
    with pytest.raises(ValueError, match="without targets"):
        fit(make(), Cases(waves().series))
    with pytest.raises(ValueError, match="1 channels for a model of 2"):
        fit(make(input_dim=2), waves())
    for field, value in {"steps": 0, "clip": 0.0, "ema": 1.0}.items():
        with pytest.raises(ValueError, match=f"TrainingConfig got {field}"):
            TrainingConfig(**{field: value})
    with pytest.raises(FloatingPointError, match="make learning_rate smaller"):
        fit(make(), waves(), None, TrainingConfig(steps=4, check_every=4, learning_rate=1e38))


@pytest.mark.slow
def test_digits_reach_96_percent():
    train, validation, test = load("digits").parts()
    model = make(
        output_dim=10, hidden_dim=64, state_dim=64, num_blocks=2, patch=8, dropout=0.2, bidirectional=True, pool="mean-max-std",
        cell_options={"init": "spread", "max_time": 8},
    ).with_statistics(*train.statistics())  # fmt: skip
    config = TrainingConfig(steps=1000, batch=32, check_every=100, learning_rate=5e-3, label_smoothing=0.1)
    assert evaluate(fit(model, train, validation, config).model, test)["accuracy"] >= 0.96


@pytest.mark.slow
def test_iterations_of_each_layer():
    """The iterations are those of the solves in the first step."""
    cases = waves(count=4, lengths=(20,))
    model = make(num_blocks=2, hidden_dim=4, state_dim=3)
    (epoch,) = fit(model, cases, None, TrainingConfig(steps=1, batch=4), solver=DEER()).history
    order = arrange(cases, 4, np.random.default_rng((0, 0)))[0]
    inputs = jnp.asarray(make_batch(cases, *order, 4).inputs)
    _, _, passed = model.run(inputs, solver=DEER())
    wanted = [float(jnp.mean(left.solution.iterations.astype(float))) for left in passed if left.solution is not None]
    assert epoch.iterations_by_layer == pytest.approx(wanted) and min(wanted) >= 1
    assert epoch.iterations == pytest.approx(np.mean(wanted))


def test_targets_that_are_none():
    cases = waves(count=4)
    for odd in (-1, 2):
        wrong = Cases(cases.series, np.array([0, 1, odd, 1]))
        with pytest.raises(ValueError, match=f"fit got class {odd} for a model of 2 classes"):
            fit(make(), wrong, None, TrainingConfig(steps=1))
    wrong = Cases(cases.series, np.array([0, 1, np.nan, 1], np.float32))
    with pytest.raises(ValueError, match="fit got validation targets that are not finite"):
        fit(
            make(output_dim=1, task="regress"),
            Cases(cases.series, np.ones(4, np.float32)),
            wrong,
            TrainingConfig(steps=1),
        )


def test_patience_counts_from_the_best_evaluation_also_if_the_last_weights_are_kept():
    """With monitor="last" the score that is kept is the last one, which a poor evaluation must not make easy to improve on."""
    epochs = [
        Evaluation(step, 1.0, {"accuracy": score}, 0.0, 0.0) for step, score in enumerate((0.9, 0.5, 0.6, 0.7), 1)
    ]
    config = TrainingConfig(monitor="last", patience=3)
    model = make()
    state = TrainState.start(model, config.knobs())
    progress = Progress(state, model)
    for epoch in epochs:
        progress = loop._judged(progress, Step(epoch.step, state, 1.0, ()), epoch, config)
    assert (progress.stale, progress.over, progress.score, progress.best_step) == (3, True, 0.7, 4)
    with pytest.raises(FloatingPointError, match="By step 5 the outputs for the validation cases are not numbers"):
        loop._judged(progress, Step(5, state, 1.0, ()), Evaluation(5, 1.0, {"mse": math.nan}, 0.0, 0.0), config)
