"""Series of very many lengths: few programs are compiled for them, so memory stays flat."""

import logging
import pathlib

import jax
import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from test_estimators import unequal

from lrcssm import LrcRidgeClassifier, LrcSSMClassifier, compilation
from lrcssm.data.batching import MOST_LENGTHS
from lrcssm.training import metrics, step

SMALL = {
    "hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "batch": 4, "steps": 2, "validation_fraction": 0.0, "random_state": 0, "patch": 1,
}  # fmt: skip
LENGTHS = np.random.default_rng(0).permutation(np.arange(20, 520))


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults):
    yield


def series(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(1, length)) for length in lengths]


def fitted(kind):
    made = LrcSSMClassifier(**SMALL) if kind == "gradient" else LrcRidgeClassifier(n_features=280, random_state=0)
    return made.fit(series([60, 100, 150, 200]), [0, 1, 0, 1])


@pytest.mark.parametrize("kind", ["gradient", "ridge", pytest.param("partial_fit", marks=pytest.mark.slow)])
def test_programs_for_many_lengths(kind, caplog):
    """24 lengths within two powers of two: eight rungs of the ladder, so at most as many programs of the model. Those of training
    take the most time to compile, so that there all lengths are near those of the first fit."""
    model, most = fitted("ridge" if kind == "ridge" else "gradient"), 2 if kind == "partial_fit" else 9
    longest = 200 if kind == "partial_fit" else 256
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        for length in LENGTHS[(LENGTHS > 64) & (longest >= LENGTHS)][:24]:
            if kind == "partial_fit":
                model.partial_fit(series([length, length]), [0, 1])
            else:
                model.predict(series([length]))
    compiled = [
        r.getMessage().split("compilation of ")[1].split()[0]
        for r in caplog.records
        if "Finished XLA comp" in r.getMessage()
    ]
    assert max((compiled.count(name) for name in compiled), default=0) <= most, compiled


@pytest.mark.slow
def test_programs_of_many_fits_are_given_back(monkeypatch):
    """Cases of one length are not padded, so that each fit may need a program of its own; only some are kept."""
    monkeypatch.setattr(compilation, "MOST_PROGRAMS", 0)
    model = LrcSSMClassifier(**SMALL | {"hidden_dim": 4, "state_dim": 4, "steps": 1})
    for length in (7, 8):
        model.fit(series([length] * 4), [0, 1, 0, 1]).predict(series([length]))
        assert step.train_step._cached._cache_size() == metrics._outputs._cached._cache_size() == 1


def resident():
    """Megabytes of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="memory is read as Linux has it")
@pytest.mark.parametrize("what", ["predict", "partial_fit", "ridge predict"])
def test_500_lengths_at_flat_memory(what, capsys):
    """After the first 150 lengths, all rungs of the ladder are known, and 350 more take no more than 60 MB."""
    model = fitted("ridge" if what.startswith("ridge") else "gradient")
    sizes = []
    for length in LENGTHS:
        if what == "partial_fit":
            model.partial_fit(series([length, length]), [0, 1])
        else:
            model.predict(series([length]))
        sizes.append(resident())
    with capsys.disabled():
        print(f"\n{what}: {sizes[0]:.0f} MB after 1 length, {sizes[150]:.0f} after 150, {sizes[-1]:.0f} after 500")
    assert sizes[-1] - sizes[150] < 60


def test_folds_share_programs(caplog):
    """Five folds of cases of 20 lengths: as many programs of the training step as one set is padded to, not more."""
    X, y = series(np.arange(40, 60)), np.arange(20) % 2
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        cross_val_score(LrcSSMClassifier(**SMALL), unequal(X), y, cv=5)
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA comp" in r.getMessage()]
    assert 1 <= sum("train_step" in text for text in compiled) <= MOST_LENGTHS
