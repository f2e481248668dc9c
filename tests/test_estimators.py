"""The classifier and the regressor keep scikit-learn's contract, and take series as users have them."""

import copy
import logging
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lrcssm
from lrcssm import LrcSSMClassifier, LrcSSMRegressor
from lrcssm.data.splits import hold_out
from lrcssm.estimators.parameters import given_fields
from lrcssm.training import Facts, Trained, TrainingConfig, recipe

TINY = {"hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "batch": 8, "bidirectional": False, "random_state": 0}
FEW = TINY | {"steps": 4, "check_every": 2, "validation_fraction": 0.0}


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def waves(count=24, length=20, seed=0):
    """Two classes of series `(cases, time)` that differ in their frequency."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return np.sin(np.array([0.3, 0.9])[y, None] * np.arange(length) + rng.uniform(0, 6, (count, 1))), y


def unequal(arrays):
    """An array of arrays, as numpy has them if their lengths differ."""
    found = np.empty(len(arrays), object)
    found[:] = arrays
    return found


@pytest.fixture(scope="module")
def fitted():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        X, y = waves()
        return LrcSSMClassifier(**FEW).fit(X, np.array(["no", "yes"])[y]), X


def test_names_are_lazy():
    code = (
        "import sys, lrcssm, lrcssm.estimators\n"
        "assert 'sklearn' not in sys.modules and 'LrcSSMRegressor' in dir(lrcssm)\n"
        "assert lrcssm.LrcSSMRegressor is lrcssm.estimators.LrcSSMRegressor and 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for module in (lrcssm, lrcssm.estimators):
        with pytest.raises(AttributeError, match="no attribute 'LrcSSMClusterer'"):
            module.LrcSSMClusterer  # noqa: B018
    everything = {}
    exec("from lrcssm import *", everything)
    assert {*lrcssm.__all__} < {*everything} and {*lrcssm.__all__} <= {*dir(lrcssm)}


def test_all_ways_to_write_series_are_one(fitted):
    model, X = fitted
    want = model.decision_function(X)
    for other in (X[:, None], [one[None] for one in X], list(X), X.tolist(), X.astype(np.float32), X.astype(object)):
        np.testing.assert_allclose(model.decision_function(other), want, rtol=1e-4, atol=1e-5)
    # A table has the columns of the training; a list of any length does not.
    shorter = [model.predict([one])[0] for one in X[:, :15]]
    np.testing.assert_array_equal(model.predict(list(X[:, :15])), shorter)
    # Unequal lengths: each as if it were alone, in whatever company.
    mixed = [X[0], X[1, :13], X[2, None, :7]]
    alone = [model.decision_function([one.reshape(1, -1)])[0] for one in mixed]
    mixed = [one.reshape(1, -1) for one in mixed]
    for same in (mixed, [one.tolist() for one in mixed], unequal([one[0] for one in mixed]), unequal(mixed)):
        np.testing.assert_allclose(model.decision_function(same), alone, rtol=1e-4, atol=1e-5)


def test_predictions(fitted):
    model, X = fitted
    assert model.classes_.tolist() == ["no", "yes"] and model.n_features_in_ == 20 and model.n_channels_ == 1
    shares, logits = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(shares[:, 1], 1 / (1 + np.exp(-logits)))
    np.testing.assert_array_equal(model.predict(X), np.where(logits > 0, "yes", "no"))
    assert [epoch.step for epoch in model.history_] == [2, 4] and model.n_iter_ == 4
    # How many there are changes not one bit.
    np.testing.assert_array_equal(model.decision_function(X[5:6]), logits[5:6])


def test_a_second_fit_compiles_nothing(fitted, caplog):
    model, X = fitted
    y = waves()[1]
    clone(model).fit(X, y).predict(X[:3])  # compiled programs may have been thrown away since the fixture was made
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        clone(model).set_params(learning_rate=1e-3, random_state=5).fit(X[::-1], y).predict(X[:3])
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA compilation" in r.getMessage()]
    assert not [text for text in compiled if "train_step" in text or "_outputs" in text]


def test_copies_and_files(fitted, tmp_path):
    model, X = fitted
    want = model.predict_proba(X)
    model.save(tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), LrcSSMClassifier.load(tmp_path / "model")):
        np.testing.assert_array_equal(other.predict_proba(X), want)
        assert other.get_params() == model.get_params() and other.history_ == model.history_
        assert other.classes_.dtype == model.classes_.dtype
    assert lrcssm.load(tmp_path / "model").model.config == model.model_.config
    with pytest.raises(lrcssm.FileError, match="holds LrcSSMClassifier, not LrcSSMRegressor"):
        LrcSSMRegressor.load(tmp_path / "model")
    lrcssm.save(tmp_path / "plain", model.model_)
    with pytest.raises(lrcssm.FileError, match="holds a model without an estimator"):
        LrcSSMClassifier.load(tmp_path / "plain")
    about = {"class": "LrcSSMClassifier", "parameters": {"solver": None, "colour": 1}, "fitted": {}}
    lrcssm.save(tmp_path / "odd", Trained(model.model_, model.classes_, provenance={"estimator": about}))
    with pytest.raises(lrcssm.FileError, match="does not describe a LrcSSMClassifier"):
        LrcSSMClassifier.load(tmp_path / "odd")
    with pytest.raises(TypeError, match="cannot hold random_state, a RandomState"):
        copy.copy(model).set_params(random_state=np.random.RandomState(0)).save(tmp_path / "never")


def test_solvers_go_to_files_and_back(fitted, tmp_path):
    model = copy.copy(fitted[0]).set_params(solver=lrcssm.Auto(newton=lrcssm.ELK(trust=2.0)), hidden_dim=np.int64(8))
    model.save(tmp_path / "model")
    assert LrcSSMClassifier.load(tmp_path / "model").get_params() == model.get_params()


def test_a_fit_that_goes_on(fitted):
    model, X = copy.copy(fitted[0]).set_params(warm_start=True), fitted[1]
    y = model.predict(X)
    y[:2] = ["no", "yes"]
    before = model.model_.head.weight
    anew = clone(model).set_params(warm_start=False).fit(X, y)
    model.fit(X, y)
    assert not np.array_equal(model.model_.head.weight, before)
    assert not np.array_equal(model.model_.head.weight, anew.model_.head.weight)
    with pytest.raises(ValueError, match="continues a model with hidden_dim=8, but now it is 9"):
        copy.copy(model).set_params(hidden_dim=9).fit(X, y)
    with pytest.raises(ValueError, match="continues a model of"):
        copy.copy(model).fit(X, np.arange(len(X)) % 3)


def test_partial_fit_learns_in_passes():
    X, y = waves(32)
    model = LrcSSMClassifier(**TINY | {"learning_rate": 2e-2, "dropout": 0.0, "training_options": {"ema": 0.9}})
    with pytest.raises(ValueError, match="got no classes"):
        model.partial_fit(X, y)
    for _ in range(25):
        model.partial_fit(X, y, classes=[0, 1, 7])
    assert model.n_iter_ == 100 and model.score(X, y) > 0.9 and model.classes_.tolist() == [0, 1, 7]
    with pytest.raises(ValueError, match="y holds 3, which is none of the classes"):
        model.partial_fit(X, np.full(32, 3))
    with pytest.raises(ValueError, match="other classes than in its first call"):
        model.partial_fit(X, y, classes=[0, 1])


def test_partial_fit_of_numbers(tmp_path):
    X, y = waves(32)
    model = LrcSSMRegressor(**TINY | {"learning_rate": 2e-2, "dropout": 0.0, "training_options": {"ema": 0.9}})
    for _ in range(10):
        model.partial_fit(X, 5.0 + y)
    model.save(tmp_path / "model")
    other = LrcSSMRegressor.load(tmp_path / "model").partial_fit(X, 5.0 + y)
    model.partial_fit(X, 5.0 + y)
    assert other.n_iter_ == model.n_iter_ == 44 and model.score(X, 5.0 + y) > 0.5
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    want = model.predict(X)
    with pytest.raises(ValueError, match=r"partial_fit got 2 numbers .* but LrcSSMRegressor was fitted to 1"):
        model.partial_fit(X, np.stack([y, y], 1))
    with pytest.raises(ValueError, match="LrcSSMRegressor requires y"):
        model.partial_fit(X, None)
    np.testing.assert_array_equal(model.predict(X), want)
    assert model.set_params(steps=2).fit(X, y).n_iter_ == 2 and model.partial_fit(X, y).n_iter_ == 4


def test_a_file_keeps_what_partial_fit_has_in_mind(tmp_path, capsys):
    X, y = waves()
    epochs = []
    model = LrcSSMClassifier(**TINY, callbacks=[epochs.append], verbose=1).partial_fit(X, y, classes=[0, 1])
    model.save(tmp_path / "model")
    other = LrcSSMClassifier.load(tmp_path / "model").partial_fit(X, y)
    model.partial_fit(X, y)
    assert other.n_iter_ == model.n_iter_ == 6
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert [epoch.step for epoch in epochs] == [3, 6] and model.history_ == tuple(epochs)
    assert capsys.readouterr().out.count("step ") == 3
    assert lrcssm.load(tmp_path / "model").model.config == model.model_.config


@pytest.mark.slow
def test_validation_is_stratified_and_callbacks_stop():
    X, _ = waves(24)
    y = np.repeat([0, 1, 2], [16, 6, 2])
    kept, held = hold_out(np.arange(24), 0.25, np.random.default_rng(0), y)
    assert np.bincount(y[held], minlength=3).tolist() in ([4, 1, 1], [4, 2, 0]) and len(set(held)) == 6
    assert sorted([*kept, *held]) == list(range(24))
    with pytest.raises(ValueError, match=r"got validation_fraction=1\.5"):
        LrcSSMClassifier(validation_fraction=1.5).fit(X, y)
    seen = []
    stop = lambda epoch: seen.append(epoch) or len(seen) == 2
    model = LrcSSMClassifier(**FEW | {"steps": 50, "validation_fraction": 0.25, "callbacks": [stop]}).fit(X, y)
    assert model.n_iter_ == 4 and "accuracy" in seen[0].scores


@pytest.mark.slow
def test_it_says_what_it_does(capsys):
    X, y = waves()
    LrcSSMRegressor(**FEW, verbose=1).fit(X, y)
    assert capsys.readouterr().out.count("step ") == 2


@pytest.mark.slow
def test_missing_values_and_times():
    X, y = waves()
    holes = X.copy()
    holes[:, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LrcSSMRegressor(**FEW).fit(holes, y)
    model = LrcSSMRegressor(**FEW, missing="mask").fit(holes, y)
    assert np.isfinite(model.predict(holes)).all() and np.isfinite(model.predict([*holes, X[0, :9]])).all()
    # The unit of time is no matter, that of the training is kept.
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, X.shape), 1)
    hours, minutes = LrcSSMRegressor(**FEW).fit(X, y, times=times), LrcSSMRegressor(**FEW).fit(X, y, times=60 * times)
    np.testing.assert_allclose(hours.predict(X[:3], times[:3]), minutes.predict(X[:3], 60 * times[:3]), rtol=1e-4)
    assert minutes.trained_.unit == pytest.approx(60 * hours.trained_.unit)
    assert np.abs(hours.predict(X[:3], times[:3]) - hours.predict(X[:3], 3 * times[:3])).max() > 1e-4
    with pytest.raises(ValueError, match="no times, but the data for training had them"):
        hours.predict(X)
    assert hours.score(X, y, times=times) == pytest.approx(hours.score(X, y, times=list(times)))


@pytest.mark.slow
def test_targets_of_several_numbers(tmp_path):
    X, y = waves()
    both = np.stack([y, 5.0 - y], 1)
    model = LrcSSMRegressor(**FEW).fit(X[:, None], both)
    assert model.predict(X).dtype == np.float64
    np.testing.assert_allclose(model.predict(X).mean(0), [0.5, 4.5], atol=0.4)  # in the units of the targets
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(LrcSSMRegressor.load(tmp_path / "model").predict(X), model.predict(X))
    assert LrcSSMRegressor(**FEW).fit(X[:, None], y).predict(X).shape == (24,)


def configured(length, **given):
    """The configuration that an estimator chooses for series of some length."""
    estimator = LrcSSMRegressor(**given)
    fields = given_fields(estimator, lrcssm.ModelConfig)
    return recipe(Facts(1, length, False, "regress", 1), fields, given_fields(estimator, TrainingConfig))[0]


def test_what_is_left_open_follows_the_length():
    assert [configured(length).patch for length in (1, 3, 4, 64, 1000, 17984)] == [1, 1, 2, 8, 31, 134]
    config = configured(22, cell="GRU")
    assert config.patch == 4 and dict(config.cell_options) == {"init": "spread", "max_time": 6}
    given = dict(configured(22, cell_options={"rho": 0.9}).cell_options)
    assert given == {"rho": 0.9, "init": "spread", "max_time": 6}
    assert dict(configured(22, cell_options={"init": "released"}).cell_options) == {"init": "released"}
    assert configured(22, cell="DenseLRC").cell_options == ()


def test_what_is_set_by_hand_goes_before_the_architecture():
    made = lambda **given: configured(100, **given)
    plain = {"layout": "plain"}
    config = made(architecture="s5", cell="LRC", model_options=plain, bidirectional=True, pool="mean-max-std")
    assert (config.cell, config.layout, config.norm, config.encoder) == ("LRC", "plain", "layer", "linear")
    assert config.bidirectional and config.pool == "mean-max-std"
    assert made(architecture="ncde", patch=10, num_blocks=2).patch == 10
    assert made(architecture="ncde", model_options=plain).encoder == "mlp"
    s5 = made(architecture="s5")
    assert (s5.cell, s5.layout, s5.norm, s5.bidirectional, s5.pool) == ("S5", "pre-norm", "batch", False, "mean")
    assert made(cell="LRC", num_blocks=2, model_options=plain, patch="auto", dropout=0.1, bidirectional=True) == made()
    assert dict(made(architecture="linoss-im", cell="LRC").cell_options) == dict(made().cell_options)
    assert dict(made(architecture="linoss-imex", cell_options={}).cell_options) == {"discretisation": "imex"}
    options = LrcSSMRegressor(architecture="s5", model_options=plain)
    assert clone(options).get_params()["model_options"] == plain


def test_options_are_given_in_one_place():
    X, y = waves()
    with pytest.raises(ValueError, match="got model_options with 'hidden_dim'; give it as a parameter of its own"):
        LrcSSMClassifier(**FEW, model_options={"hidden_dim": 3}).fit(X, y)
    with pytest.raises(ValueError, match="got training_options with 'speed'; give some of steps"):
        LrcSSMClassifier(**FEW, training_options={"speed": 3}).fit(X, y)
    with pytest.raises(TypeError, match=r"got layout='bare'; give it as model_options=\{'layout': 'bare'\}"):
        LrcSSMClassifier(layout="bare")


def test_weights_of_cases():
    """A case of weight 0 is not learned from, and twice the weight of all changes nothing."""
    X, y = waves()
    few = FEW | {"dropout": 0.0, "training_options": {"clip": 1e9}}
    twice = LrcSSMRegressor(**few).fit(X, y, np.full(24, 2.0))
    np.testing.assert_array_equal(twice.predict(X), LrcSSMRegressor(**few).fit(X, y).predict(X))
    odd = np.where(np.arange(24) < 6, 1e3, y)
    weights = (np.arange(24) >= 6).astype(float)
    scaled = lambda targets: LrcSSMClassifier(**few).fit(X, targets, weights).predict_proba(X)
    flipped = np.where(np.arange(24) < 6, 1 - y, y)
    np.testing.assert_array_equal(scaled(y), scaled(flipped))
    with pytest.raises(ValueError, match="weights"):
        LrcSSMRegressor(**few).fit(X, odd, -weights)


def test_solvers_by_name(fitted, tmp_path):
    model, X = copy.copy(fitted[0]), fitted[1]
    for name, solver in {"auto": None, "sequential": lrcssm.Sequential(), "deer": lrcssm.DEER()}.items():
        want = model.set_params(solver=solver).predict_proba(X)
        np.testing.assert_array_equal(model.set_params(solver=name).predict_proba(X), want)
    model.save(tmp_path / "model")
    assert LrcSSMClassifier.load(tmp_path / "model").solver == "deer"
    with pytest.raises(ValueError, match="got solver='newton'; give one of auto, sequential, deer, elk"):
        model.set_params(solver="newton").predict(X)


def test_pipeline_and_search():
    X, y = waves(27)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LrcSSMClassifier(**FEW)),
        {"lrcssmclassifier__learning_rate": np.array([1e-3, 1e-2]), "lrcssmclassifier__steps": np.array([2, 4])}, cv=3,
    )  # fmt: skip
    search.fit(X, y)
    last = make_pipeline(StandardScaler(), LrcSSMClassifier(**FEW | {"learning_rate": 1e-2, "steps": 4}))
    folds = StratifiedKFold(3).split(X, y)
    by_hand = [clone(last).fit(X[train], y[train]).score(X[test], y[test]) for train, test in folds]
    np.testing.assert_allclose([search.cv_results_[f"split{i}_test_score"][3] for i in range(3)], by_hand)
    np.testing.assert_array_equal(search.predict(X), clone(search.best_estimator_).fit(X, y).predict(X))
    regressor = LrcSSMRegressor(**FEW)
    by_hand = [clone(regressor).fit(X[train], y[train]).score(X[test], y[test]) for train, test in KFold(3).split(X)]
    np.testing.assert_allclose(cross_val_score(regressor, X, y, cv=3), by_hand, rtol=1e-6)


@pytest.mark.slow
def test_in_processes_of_their_own():
    from joblib import Parallel, delayed

    X, y = waves(27)
    model = LrcSSMClassifier(**FEW).fit(X, y)
    found = Parallel(n_jobs=2)(delayed(model.predict_proba)(part) for part in (X[:14], X[14:]))
    np.testing.assert_allclose(np.concatenate(found), model.predict_proba(X), rtol=1e-4)
    np.testing.assert_allclose(cross_val_score(model, X, y, cv=3, n_jobs=2), cross_val_score(model, X, y, cv=3))
