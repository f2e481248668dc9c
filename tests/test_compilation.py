"""Compiled programs: kept on disk for estimators alone, and few of them."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring
from sklearn.model_selection import StratifiedKFold
from test_training import as_a_user_has_it  # noqa: F401, a fixture

import lrcssm
from lrcssm.compilation import SWITCH, keeping_compilations, prune, remember_compilations
from lrcssm.data import Cases, padded_lengths
from lrcssm.training import metrics
from lrcssm.training.recipe import Facts

COMPILED: list[str] = []
monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **more: COMPILED.append(event) if event.endswith("backend_compile_duration") else None
)
QUICK = {"hidden_dim": 4, "state_dim": 4, "num_blocks": 1, "steps": 4, "check_every": 2, "batch": 4, "random_state": 0}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of our own, in which everything is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("lrcssm.compilation.LEAST_SECONDS", 0.0)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "lrcssm" / "compiled"
    jax.config.update("jax_compilation_cache_dir", before)


def compile_something():
    """Compile a program that no other test has."""
    number = np.random.default_rng().integers(2**60)
    return jax.jit(lambda x: x * float(number))(jnp.ones(3, jnp.float32))


def kept(folder):
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_only_what_is_compiled_within_is_kept(cache):
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    compile_something()
    assert kept(cache) == 0
    with keeping_compilations():
        compile_something()
        first = kept(cache)
        with keeping_compilations():
            compile_something()
        compile_something()
    assert 0 < first < kept(cache)
    whole = kept(cache)
    compile_something()
    assert kept(cache) == whole
    assert (
        jax.config.jax_compilation_cache_dir is None and jax.config.jax_persistent_cache_min_compile_time_secs == least
    )


def test_what_the_user_chose_stays(cache, tmp_path, monkeypatch):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    with keeping_compilations():
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own") and not cache.exists()
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv(SWITCH, "off")
    with keeping_compilations():
        assert jax.config.jax_compilation_cache_dir is None
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with keeping_compilations():
        assert jax.config.jax_compilation_cache_dir is None
    assert remember_compilations() is None


def test_a_full_folder_loses_its_oldest_programs(tmp_path):
    for i in range(5):
        (tmp_path / str(i)).write_bytes(b"x" * 10)
        os.utime(tmp_path / str(i), (i, i))
    prune(tmp_path, most=25)
    assert sorted(os.listdir(tmp_path)) == ["3", "4"]


def test_estimators_keep_their_programs(cache, as_a_user_has_it):  # noqa: F811
    X, y = np.random.default_rng(0).normal(size=(8, 1, 19)), np.arange(8) % 2
    model = lrcssm.LrcSSMClassifier(method="gradient", **QUICK).fit(X, y)
    fitted = kept(cache)
    assert fitted > 0 and jax.config.jax_compilation_cache_dir is None
    model.predict(X[:, :, :13])
    assert kept(cache) > fitted and jax.config.jax_compilation_cache_dir is None


def ragged(count=40, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return [np.sin((0.2 + 0.4 * label) * np.arange(rng.integers(20, 80)))[None] for label in y], y


def test_folds_share_their_programs(as_a_user_has_it):  # noqa: F811
    """All folds have the same model and the same shapes, although none has the same lengths."""
    X, y = ragged()
    counts, lengths = [], set()
    for train, test in StratifiedKFold(5).split(np.zeros(len(y)), y):
        before = len(COMPILED)
        model = lrcssm.LrcSSMClassifier(method="gradient", **QUICK).fit([X[i] for i in train], y[train])
        model.predict([X[i] for i in test])
        counts.append(len(COMPILED) - before)
        lengths.add(max(X[i].shape[1] for i in train))
    assert counts[0] > 0 and counts[1:] == [0, 0, 0, 0] and len(lengths) > 1


def test_predictions_of_many_lengths_compile_few_programs(as_a_user_has_it):  # noqa: F811
    X, y = ragged()
    model = lrcssm.LrcSSMClassifier(method="gradient", **QUICK).fit(X, y)
    assert (
        model.trained_.lengths
        == padded_lengths(Cases.of([one.T for one in X]), patch=model.model_.config.patch)
        == (80,)
    )
    shapes = set()
    real = metrics._outputs

    def counted(model, batch, solver):
        shapes.add((batch.inputs.shape, batch.mask is None))
        return real(model, batch, solver)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_outputs", counted)
        for steps in range(10, 160):
            model.predict([np.zeros((1, steps))])
    assert len(shapes) <= 10  # of 150 lengths


def test_the_lengths_of_training_survive_in_a_file(tmp_path, as_a_user_has_it):  # noqa: F811
    X, y = ragged()
    model = lrcssm.LrcSSMClassifier(method="gradient", **QUICK).fit(X, y)
    model.save(tmp_path / "model")
    assert lrcssm.load(tmp_path / "model").lengths == model.trained_.lengths


def test_facts_of_unequal_lengths_are_those_of_their_bucket():
    of = lambda *lengths: Facts.of(Cases.of([np.zeros((n, 1)) for n in lengths]), "classify", 2).length
    assert of(50, 50) == 50 and of(33, 50) == of(20, 53) == 56
