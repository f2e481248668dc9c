"""Tables in memory: read as the same table in a file is, by pandas, polars and xarray alike."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import lrcssm
from lrcssm.data import from_frame
from lrcssm.data.readers import read
from lrcssm.errors import InvalidType, InvalidValue
from lrcssm.estimators.arrays import as_series

pd = pytest.importorskip("pandas")

LONG = {
    "machine": ["a", "a", "b", "b", "b"],
    "time": [0.0, 1.5, 0.0, 1.0, 4.0],
    "heat": [1.0, 2.0, 3.0, 2.5, np.nan],
    "load": [1, 2, 3, 4, 5],
    "label": ["ok", "ok", "hot", "hot", "hot"],
}


def polars(columns):
    return pytest.importorskip("polars").DataFrame(columns, nan_to_null=True)


FRAMES = {"pandas": pd.DataFrame, "polars": polars}


def same(found, other):
    assert found.classes == other.classes and found.channel_names == other.channel_names and found.ids == other.ids
    assert len(found) == len(other) and found.guess == other.guess and found.step == other.step
    for a, b in zip(found.series, other.series, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_array_equal(a, b)
    for field in ("times", "targets"):
        mine, theirs = getattr(found, field), getattr(other, field)
        assert (mine is None) == (theirs is None)
        for a, b in zip(mine if mine is not None else (), theirs if theirs is not None else (), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("options", [
    {}, {"case": "machine", "target": "label"}, {"ignore": ["load"]}, {"channels": ["load", "heat"]}, {"task": "per-step"},
    {"target": "load", "ignore": ["label"], "task": "per-step"},
])  # fmt: skip
def test_long_tables_are_read_as_files_are(library, options, tmp_path):
    pd.DataFrame(LONG).to_csv(tmp_path / "a.csv", index=False)
    same(from_frame(FRAMES[library](LONG), name="a", **options), read(tmp_path / "a.csv", **options))


@pytest.mark.parametrize("library", FRAMES)
def test_wide_tables_are_read_as_files_are(library, tmp_path):
    values = np.random.default_rng(0).normal(size=(6, 4)).round(3)
    columns = {f"t{i}": values[:, i] for i in range(4)} | {"label": [0, 1, 0, 1, 2, 2]}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    found = from_frame(FRAMES[library](columns), name="a")
    same(found, read(tmp_path / "a.csv"))
    assert found.task == "classify" and found.classes == ("0", "1", "2")
    np.testing.assert_array_equal(found.series[2][:, 0], values[2].astype(np.float32))


def test_indices_of_pandas():
    frame = pd.DataFrame(LONG)
    plain = from_frame(frame)
    same(from_frame(frame.set_index(["machine", "time"])), plain)
    kept = from_frame(frame.iloc[[0, 1, 3]])  # an index with gaps counts rows of another table
    assert kept.ids == ("a", "b") and kept.channel_names == ("heat", "load") and "row numbers" in kept.guess
    wide = pd.DataFrame(np.arange(6.0).reshape(2, 3), index=["x", "y"])
    assert from_frame(wide).ids == ("x", "y")
    dates = pd.date_range("2024-01-01", periods=4, freq="h")
    found = from_frame([pd.DataFrame({"u": np.arange(4.0)}, index=dates)] * 3)
    assert len(found) == 3 and found.step == 3600.0 and found.times is None
    odd = dates[[0, 1, 3]]
    found = from_frame([pd.DataFrame({"u": np.arange(3.0)}, index=odd)] * 2)
    assert found.times is not None
    np.testing.assert_array_equal(np.diff(found.times[0]), [3600.0, 7200.0])


def test_types_of_columns():
    frame = pd.DataFrame({
        "id": [1, 1, 2, 2], "t": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-02"]),
        "whole": pd.array([1, None, 3, 4], dtype="Int64"), "on": [True, False, True, True],
        "grade": pd.Categorical(["p", "p", "q", "q"]),
    })  # fmt: skip
    found = from_frame(frame)
    assert found.step == 86400.0 and found.classes == ("p", "q") and found.channel_names == ("whole", "on")
    np.testing.assert_array_equal(found.series[0], [[1, 1], [np.nan, 0]])


def test_lists_of_frames():
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "z"]) for n in (3, 5)]
    found = from_frame([frames[0], frames[1][["z", "x"]]])
    assert found.channel_names == ("x", "z") and "case: a frame for each" in found.guess
    for one, frame in zip(found.series, frames, strict=True):
        np.testing.assert_array_equal(one, frame.to_numpy(np.float32))
    steps = from_frame(
        [frame.assign(activity=["sit"] + ["run"] * (len(frame) - 1)) for frame in frames], task="per-step"
    )
    assert steps.classes == ("run", "sit") and [one.tolist() for one in steps.targets] == [[1, 0, 0], [1, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        (
            {},
            {"case": "nope"},
            "The DataFrame: no column is called 'nope', which was named as the case; there are 'machine'",
        ),
        ({"heat": [1, 2, "bad", 4, 5]}, {}, "The DataFrame, row 2: in column 'heat' 'bad' is not a number"),
        ({"heat": [1, 2, np.inf, 4, 5]}, {}, "The DataFrame, row 2: in column 'heat' 'inf' is beyond single precision"),
        ({"time": [0, 0, 0, 1, 2]}, {}, "The DataFrame, row 1: this time occurs twice in its case"),
        ({"label": ["ok", None, "hot", "hot", "hot"]}, {}, "The DataFrame, row 1: its target is missing"),
        ({"label": ["ok", "hot", "hot", "hot", "hot"]}, {}, "The DataFrame, row 1: the target is 'hot' here and 'ok'"),
        ({"note": list("abcde")}, {"target": "label", "case": "machine"}, "the column 'note' holds text, such as 'a'"),
    ],
)
def test_errors_name_columns(change, options, text):
    with pytest.raises(InvalidValue) as caught:
        from_frame(pd.DataFrame({**LONG, **change}), **options)
    assert str(caught.value).startswith(text) or text in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (
            [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})],
            "Frame 1 has the columns 'b', and frame 0 has 'a'",
        ),
        ([pd.DataFrame({"a": [1.0]})] * 2, "Each frame has one row"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": []})], "Frame 1 has no rows"),
        (pd.DataFrame({"a": []}), "it has no rows or no columns"),
    ],
)
def test_frames_that_cannot_be_used(frame, text):
    with pytest.raises(InvalidValue, match=text):
        from_frame(frame)


@pytest.mark.parametrize("what", [np.zeros((2, 3)), [], {"a": 1}, [pd.DataFrame({"a": [1]}), 3], pd.Series([1, 2])])
def test_other_things_are_refused(what):
    with pytest.raises(InvalidType, match="give a DataFrame, a list of DataFrames or a DataArray"):
        from_frame(what)


def cube(**coordinates):
    values = np.random.default_rng(1).normal(size=(2, 3, 4))  # case, channel, time
    xarray = pytest.importorskip("xarray")
    return values, xarray.DataArray(values, dims=("case", "channel", "time"), coords=coordinates)


def test_arrays_of_xarray():
    values, array = cube(channel=["u", "v", "w"], time=[0.0, 1.0, 2.0, 5.0], grade=("case", ["p", "q"]))
    found = from_frame(array.transpose("time", "case", "channel"), target="grade")
    assert found.channel_names == ("u", "v", "w") and found.classes == ("p", "q")
    np.testing.assert_array_equal(np.stack(found.series), values.transpose(0, 2, 1).astype(np.float32))
    np.testing.assert_array_equal(found.times[1], [0, 1, 2, 5])
    same(from_frame(array.to_dataset("channel"), target="grade"), found)
    assert from_frame(array.isel(case=0)).series[0].shape == (4, 3)
    assert from_frame(array.rename(channel="wires")).channel_names == ("u", "v", "w")
    with pytest.raises(
        InvalidValue, match="The DataArray: its dimensions are 'a', 'b', 'time'; name them case, channel and time"
    ):
        from_frame(array.rename(case="a", channel="b"))
    with pytest.raises(InvalidValue, match="no coordinate is called 'nope'"):
        from_frame(array, target="nope")


class Fitted:
    """The part of an estimator that `as_series` uses."""


def series_of(X, estimator=None, reset=True):
    return as_series(Fitted() if estimator is None else estimator, X, reset=reset, nan=False)


def some_frames(columns=("x", "y", "z"), steps=(8, 9), timed=False):
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(n, len(columns))), columns=list(columns)) for n in steps]
    return [one.assign(time=np.cumsum(rng.uniform(1, 2, len(one)))) for one in frames] if timed else frames


def test_estimators_take_lists_of_frames_by_name():
    estimator, frames = Fitted(), some_frames()
    found = series_of(frames, estimator)
    assert estimator.n_channels_ == estimator.n_features_in_ == 3 and estimator.feature_names_in_.tolist() == [
        "x",
        "y",
        "z",
    ]
    for one, frame in zip(found, frames, strict=True):
        np.testing.assert_array_equal(one, frame.to_numpy())  # in double precision
    other = series_of([one[["z", "x", "y"]] for one in frames], estimator, reset=False)
    for one, two in zip(found, other, strict=True):
        np.testing.assert_array_equal(one, two)
    arrays = series_of(
        [frame.to_numpy().T for frame in frames], estimator, reset=False
    )  # without names, in their places
    np.testing.assert_array_equal(arrays[1], found[1])
    with pytest.raises(
        InvalidValue, match="X lacks the columns 'z' and has the further columns 'w'; Fitted was fitted to 'x'"
    ):
        series_of(some_frames(("x", "y", "w")), estimator, reset=False)
    with pytest.raises(InvalidValue, match="X lacks the columns 'z'; Fitted"):
        series_of(some_frames(("x", "y")), estimator, reset=False)
    assert series_of(some_frames(timed=True)).times is not None


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (
            [one.assign(note=["q", *"r" * (len(one) - 1)]) for one in some_frames()],
            "X, row 0: the column .note. holds text, such as .q.; leave it out of X",
        ),
        (
            [one.assign(label=i) for i, one in enumerate(some_frames())],
            "X has the column .label., the name of a target; leave it out of X and give y",
        ),
        (pd.DataFrame(LONG), r"its rows are time steps, .*; give lrcssm.data.from_frame\(X\)\."),
        (pd.DataFrame({"t0": [1.0, 2.0], "who": ["a", "b"]}), "The column 'who' of X holds text, such as 'a'"),
        (some_frames()[0].set_index(pd.date_range("2024", periods=8)), "an index of dates: its rows are time steps"),
    ],
)
def test_estimators_name_columns_in_errors(X, text):
    with pytest.raises(InvalidValue, match=text):
        series_of(X)


def test_data_sets_and_other_libraries_in_estimators():
    frames = some_frames()
    plain = series_of(frames)
    for other in (
        from_frame(frames),
        pd.concat(frames, keys=range(len(frames)), names=["case", "time"]),
        [polars({name: one[name].to_numpy() for name in one}) for one in frames],
    ):
        for one, two in zip(plain, series_of(other), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6)
    values, array = cube(channel=["u", "v", "w"])
    estimator = Fitted()
    for one, two in zip(series_of(array.transpose("time", "channel", "case"), estimator), values, strict=True):
        np.testing.assert_array_equal(one, two.T)
    assert estimator.feature_names_in_.tolist() == ["u", "v", "w"]


@pytest.mark.parametrize("shape", [(5, 500, 3), (5, 40, 9), (5, 16, 2)])
def test_time_first_arrays_are_pointed_out(shape):
    X = np.zeros(shape)
    with pytest.warns(UserWarning) as caught:
        series_of(X)
    text = (
        f"X of shape {shape} was read as 5 cases of {shape[1]} channels with {shape[2]} time steps; if its axes are (cases, time, "
        "channels), give X.transpose(0, 2, 1)."
    )
    assert [str(one.message) for one in caught] == [text]
    with pytest.warns(
        UserWarning, match=rf"The list X was read as 5 cases of {shape[1]} channels with up to {shape[2]} time"
    ):
        series_of(list(X))


@pytest.mark.parametrize("shape", [(5, 3, 500), (5, 144, 62), (5, 1345, 270), (5, 200, 30), (5, 13, 4), (5, 12, 2)])
def test_arrays_with_many_channels_are_not(shape):
    """Among them are shapes of the archive: FaceDetection, DuckDuckGeese, InsectWingbeat, SpokenArabicDigits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series_of(np.zeros(shape))


def test_swapped_axes_at_prediction():
    estimator = Fitted()
    series_of(np.zeros((4, 3, 50)), estimator)
    with pytest.raises(
        InvalidValue, match=r"X has 50 channels, but Fitted was fitted to 3; give X.transpose\(0, 2, 1\)\."
    ):
        series_of(np.zeros((4, 50, 3)), estimator, reset=False)


def test_fit_predict_and_files_with_names(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 6)
    frames = []
    for label in y:
        t = np.cumsum(rng.uniform(0.5, 1.5, 30))
        wave = np.sin({"slow": 0.2, "fast": 0.9}[label] * t)
        frames.append(pd.DataFrame({"time": t, "wave": wave, "noise": rng.normal(size=30)}))
    model = lrcssm.LrcRidgeClassifier(n_features=300, random_state=0).fit(frames, y)
    assert model.trained_.channels == ("wave", "noise") and model.trained_.unit is not None
    expected = model.predict_proba(frames)
    swapped = [one[["noise", "time", "wave"]] for one in frames]
    np.testing.assert_array_equal(model.predict_proba(swapped), expected)
    arrays = [one[["wave", "noise"]].to_numpy().T for one in frames]
    given = model.predict_proba(arrays, times=[one["time"].to_numpy() for one in frames])
    np.testing.assert_array_equal(given, expected)
    with pytest.raises(InvalidValue, match="There are no times"):
        model.predict(arrays)
    model.save(tmp_path / "model")
    again = lrcssm.LrcRidgeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(swapped), expected)
    with pytest.raises(InvalidValue, match="X lacks the columns 'noise'"):
        again.predict([one.drop(columns="noise") for one in frames])
    assert again.feature_names_in_.tolist() == ["wave", "noise"]


def test_libraries_are_not_imported():
    """Reading a table of one library imports none of the others."""
    code = (
        "import sys, lrcssm.data; assert not {'pandas', 'polars', 'xarray', 'pyarrow'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
