"""Tables as people have them: written by pandas, with dates and decimal commas, with columns of any name."""

import datetime
import sys
import types

import numpy as np
import pandas as pd
import pytest

from lrcssm import FileError
from lrcssm.data import batches, load
from lrcssm.data.readers import NoTargetColumn, read


@pytest.fixture
def table(tmp_path):
    """A function that writes text to a file and reads it."""

    def make(text, name="a.csv", **options):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read(tmp_path / name, **options)

    return make


def shapes(found):
    return [one.shape for one in found.series]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("label", ["label", "species", None])
def test_a_wide_table_of_pandas(tmp_path, index, start, label):
    """Noise with sorted labels: the index must not become the first step, nor the header a case."""
    values = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    frame = pd.DataFrame(values, index=np.arange(12) + start)
    if label is not None:
        frame[label] = ["a"] * 6 + ["b"] * 6
    frame.to_csv(tmp_path / "noise.csv", index=index)
    if label == "species" and not index:  # 0, 1, 2, 3, 4, species: a header, or a case of the class species
        frame = frame.rename(columns=lambda name: f"t{name}" if isinstance(name, int) else name)
        frame.to_csv(tmp_path / "noise.csv", index=index)
    found = read(tmp_path / "noise.csv")
    assert len(found) == 12 and shapes(found) == [(5, 1)] * 12
    np.testing.assert_allclose(np.stack(found.series)[..., 0], values, rtol=1e-6)
    assert found.classes == (None if label is None else ("a", "b"))
    assert ("left out: '' (row numbers)" in found.guess) == index
    if label is not None:
        assert f"target: '{label}'" in found.guess and found.targets.tolist() == [0] * 6 + [1] * 6


def test_a_long_table_of_pandas(tmp_path):
    frame = pd.DataFrame({"id": [1, 1, 2, 2], "time": [0, 1, 0, 1], "x": [1.5, 2, 3, 4], "label": list("aabb")})
    frame.to_csv(tmp_path / "long.csv")
    found = read(tmp_path / "long.csv")
    assert shapes(found) == [(2, 1)] * 2 and found.channel_names == ("x",) and found.ids == ("1", "2")
    want = "Rows are steps; case: 'id'; time: 'time'; target: 'label'; channel: 'x'; left out: '' (row numbers)."
    assert found.guess == want
    frame = pd.DataFrame({"x": [1.5, 2, 3], "z": [1, 2, 4.5]}, index=pd.date_range("2024-01-31", periods=3, freq="D"))
    frame.to_csv(tmp_path / "dates.csv")
    found = read(tmp_path / "dates.csv")
    assert shapes(found) == [(3, 2)] and found.step == 86400 and "time: '' (dates)" in found.guess


def test_cases_of_pandas_in_a_folder(tmp_path):
    for i, columns in enumerate((None, ["p", "q"])):
        folder = tmp_path / str(i)
        folder.mkdir()
        for j in range(2):
            pd.DataFrame(np.full((4, 2), j + 0.5), columns=columns).to_csv(folder / f"{j}.csv")
        found = read(folder)
        assert shapes(found) == [(4, 2)] * 2 and found.series[1].max() == 1.5
    pd.DataFrame(np.full((4, 2), 0.5)).to_csv(tmp_path / "1" / "0.csv", index=False)
    pd.DataFrame(np.full((4, 2), 0.5)).to_csv(tmp_path / "1" / "1.csv", index=False)
    assert shapes(read(tmp_path / "1")) == [(4, 2)] * 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("speed,1,2\n0,3.5,4\n1,5,6.5\n", "line 1: 'speed' is in a column of numbers"),
        ("1.5,2.5,3.5\n1,2,x\n", "line 2: 'x' is not a number"),
        ("1,2,3,4,5\n5,4,3,2,1\n", "line 1: 1, 2, 3 and so on could be a header or a case"),
        ("0,1,2\n5,4,3\n", "line 1: 0, 1, 2 and so on could be a header or a case"),
        ("id,time,x\na,0,1\nid,time,x\nb,0,1\n", "line 3: in column 'x' 'x' is not a number"),
        (",a,b\nx,1,2\ny,3,4\n", "line 1: the first column has no name"),
        ("id,time,x,note,more\na,0,1,u,v\na,1,2,u,v\n", "line 2: the column 'more' holds text, such as 'v'; name the column with case="),
        ("time,x\n0,1\n0,2\n", "line 3: this time occurs twice in its case; .* pass case= with the name of the column"),
        ("id,time,x,label\na,0,1,u\na,1,2,v\n", 'line 3: the target is \'v\' here .* pass task="per-step" if each step has its own'),
        ("time,x\n31/01/2024,1\n02/13/2024,2\n", "some dates have the day first and some the month"),
        ("date,time,x\n2024-01-01,a,1\n", "is not a time"),
    ],
)  # fmt: skip
def test_errors_point_at_the_cause(table, text, says):
    with pytest.raises(FileError, match=says):
        table(text)


@pytest.mark.parametrize(
    "text", ["0,1\n1.5,2\n3,4.5\n", "0,1,2\n1.5,2,1\n3,4.5,1\n", "target,0.0,0.1\n1,2,3\n2,3,4\n1,3,4\n"]
)
def test_a_header_of_numbers(table, text):
    assert len(table(text)) == text.count("\n") - 1


SENSORS = "Machine,Cycle No,Temp,Press,Health\n{}".format(
    "".join(f"{m},{c},{m + c / 10},{c},{'ok' if m == 1 else 'bad'}\n" for m in (1, 2) for c in range(3))
)


def test_columns_by_their_names(table):
    options = {"case": "machine", "time": "Cycle No", "target": "Health"}
    found = table(SENSORS, **options)
    assert shapes(found) == [(3, 2)] * 2 and found.channel_names == ("Temp", "Press") and found.classes == ("bad", "ok")
    assert found.ids == ("1", "2") and found.step == 1
    assert table(SENSORS, **options, ignore=["press"]).channel_names == ("Temp",)
    assert "left out: 'Press'" in table(SENSORS, **options, ignore=["press"]).guess
    assert table(SENSORS, **options, channels=["Press"]).channel_names == ("Press",)
    assert table(SENSORS, **(options | {"target": "none"}), ignore=["Health"]).targets is None
    for wrong, says in (
        (
            {"case": "unit"},
            "no column is called 'unit', which was named as the case; there are 'Machine', 'Cycle No', ",
        ),
        ({"ignore": ["nothing"]}, "no column is called 'nothing', which was named to be ignored"),
        ({"case": "Machine", "time": "Machine"}, "the column 'Machine' was named twice"),
    ):
        with pytest.raises(FileError, match=says) as caught:
            table(SENSORS, **wrong)
        assert not isinstance(caught.value, NoTargetColumn)


def test_load_takes_columns(tmp_path):
    (tmp_path / "sensors.csv").write_text(SENSORS)
    options = {"case": "Machine", "time": "Cycle No", "target": "Health", "channels": ["Temp"]}
    for source, where in ((tmp_path / "sensors.csv", None), ("sensors", tmp_path)):
        assert shapes(load(source, directory=where, **options)) == [(3, 1)] * 2
    with pytest.raises(NoTargetColumn, match="digits has no column 'Machine'; leave case= out"):
        load("digits", case="Machine")


def test_several_columns_name_a_case(table):
    text = "subject,trial,time,x\n" + "".join(f"{s},{k},{t},{t}\n" for s in "ab" for k in (1, 2) for t in range(3))
    with pytest.raises(
        FileError, match="'subject', 'trial' could all be the case; rename all but one, or choose with case="
    ):
        table(text)
    assert table(text, case=["subject", "trial"]).ids == ("a/1", "a/2", "b/1", "b/2")


def rows(*columns):
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


TWICE = (["p"] * 3 + ["q"] * 3, [0, 1, 2] * 2, [0.5, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("text", "case", "channels"),
    [
        ("turbine,time,x\n" + rows(*TWICE), "turbine", "x"),  # text that tells repeated times apart
        ("time,x,turbine\n" + rows(TWICE[1], TWICE[2], TWICE[0]), "turbine", "x"),
        ("turbine,time,x\n" + rows([7] * 3 + [8] * 3, *TWICE[1:]), "turbine", "x"),  # so do whole numbers
        ("no,x,z\n" + rows([7] * 3 + [8] * 3, TWICE[2], TWICE[2]), "no", "xz"),  # runs of equal numbers, without times
        ("recording,ds,x\n" + rows(*TWICE), "recording", "x"),  # further names
        ("Machine_ID,Time [s],x\n" + rows(*TWICE), "Machine_ID", "x"),  # capitals and units
        ("id,time,x\n" + rows([16777216] * 3 + [16777217] * 3, *TWICE[1:]), "id", "x"),  # the same in single precision
    ],
)
def test_a_case_column_is_guessed(table, text, case, channels):
    found = table(text)
    assert shapes(found) == [(3, len(channels))] * 2 and found.channel_names == tuple(channels)
    assert f"case: '{case}'" in found.guess and found.targets is None


def test_text_without_a_name_for_it_is_a_target_or_a_case(table):
    wide = "plant,t0,t1\n" + rows(["rose", "oak", "rose"], [1, 2, 3], [4, 5, 6])
    assert table(wide).classes == ("oak", "rose")
    named = "plant,t0,t1\n" + rows(["rose", "oak", "elm"], [1, 2, 3], [4, 5, 6])
    assert table(named).ids == ("rose", "oak", "elm") and table(named).targets is None
    long = "turbine,time,x,state\n" + rows(*TWICE, ["up"] * 3 + ["down"] * 3)
    assert table(long).classes == ("down", "up") and table(long).ids == ("p", "q")


DAYS = [datetime.datetime(2024, 1, 30, 9, 30) + datetime.timedelta(days=k) for k in (0, 1, 2, 4)]


@pytest.mark.parametrize(
    ("form", "order"),
    [
        ("%Y-%m-%d %H:%M:%S", ""), ("%Y-%m-%dT%H:%M:%SZ", ""), ("%Y/%m/%d %H:%M", ""), ("%d.%m.%Y %H:%M", "day first"),
        ("%m/%d/%Y %H:%M", "month first"), ("%m/%d/%Y %I:%M %p", "month first"), ("%d/%m/%Y %H:%M", "day first"),
        ("%d-%m-%Y %H:%M:%S", "day first"), ("%m/%d/%y %H:%M", "month first"), ("%Y-%m-%d %H:%M:%S+00:00", ""),
    ],
)  # fmt: skip
def test_dates(table, form, order):
    for name in ("timestamp", "when measured"):
        found = table(f"{name},x\n" + rows([day.strftime(form) for day in DAYS], [1, 2, 3, 4]))
        want = [day.replace(tzinfo=datetime.UTC).timestamp() for day in DAYS]
        assert found.times is not None and found.times[0].tolist() == want
        assert (f"(dates, {order})" if order else "(dates)") in found.guess


def test_dates_without_a_day_above_12(table):
    """Daily in one reading, monthly in the other."""
    daily = "date,x\n" + rows([f"0{k}/02/2024" for k in range(1, 6)], range(5))
    assert table(daily).step == 86400 and "day first" in table(daily).guess
    american = "date,x\n" + rows([f"02/0{k}/2024" for k in range(1, 6)], range(5))
    assert table(american).step == 86400 and "month first" in table(american).guess
    monthly = "date,x\n" + rows([f"{k:02}/01/2024" for k in range(1, 13)] + ["01/01/2025"], range(13))
    assert "month first" in table(monthly).guess
    clock = "time,x\n" + rows(["9:30", "9:30:30", "9:31"], range(3))
    assert table(clock).step == 30


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id;time;x;y value\n1;0;1,5;-2,25\n1;0,5;1.000,5;3e1\n"),
        ("a.tsv", "id\ttime\tx\ty value\n1\t0\t1,5\t-2,25\n1\t0,5\t1000,5\t30\n"),
        ("a.txt", "id time x z\n1 0 1.5 -2.25\n1 0.5 1000.5  30\n"),
    ],
)
def test_decimal_commas_tabs_and_spaces(table, name, text):
    found = table(text, name)
    np.testing.assert_array_equal(found.series[0], np.array([[1.5, -2.25], [1000.5, 30]], np.float32))
    assert found.step == 0.5 and found.ids == ("1",)


def test_tables_of_the_ucr_archive(tmp_path):
    """No header, tabs, and the class as a whole number before the values."""
    rng = np.random.default_rng(0)
    for part, count in (("TRAIN", 8), ("TEST", 20)):
        lines = ["\t".join([str(i % 2 + 1), *map(repr, rng.normal(size=6).tolist())]) for i in range(count)]
        (tmp_path / f"Coffee_{part}.tsv").write_text("\n".join(lines))
    (tmp_path / "README.txt").write_text("no data")
    found = read(tmp_path)
    assert shapes(found) == [(6, 1)] * 28 and found.classes == ("1", "2") and len(found.split.train) == 8
    assert "the only column of whole numbers at the start" in found.guess
    assert shapes(read(tmp_path / "Coffee_TEST.tsv", target="none")) == [(7, 1)] * 20


def test_a_single_series(table):
    found = table("passengers\n112\n118\n132\n")
    assert shapes(found) == [(3, 1)] and found.channel_names == ("passengers",)
    found = table("month,passengers\n1949-01,112\n1949-02,118\n1949-03,132\n")
    assert shapes(found) == [(3, 1)] and "time: 'month' (dates)" in found.guess


STEPS = "id,time,x,activity\n" + rows(
    ["a"] * 3 + ["b"] * 2, [0, 1, 2, 0, 1], [1, 2, 3, 4, 5], ["sit", "sit", "run", "run", "sit"]
)


def test_a_target_for_each_step(table, tmp_path):
    found = table(STEPS, task="per-step")
    assert found.task == "per-step" and found.classes == ("run", "sit")
    assert [one.tolist() for one in found.targets] == [[1, 1, 0], [0, 1]]
    ((batch, positions),) = batches(found.cases(), 2)
    assert batch.targets.T[np.argsort(positions)].tolist() == [[1, 1, 0], [0, 1, 0]]
    assert batch.mask.sum(0)[np.argsort(positions)].tolist() == [3, 2]
    numbers = "id,time,x,y\n" + rows(list("aab"), [0, 1, 0], [1, 2, 3], ["0.5", "", "2"])
    (tmp_path / "a.csv").write_text(numbers)
    found = read(tmp_path / "a.csv", task="per-step")
    assert found.classes is None and found.channel_names == ("x",)
    np.testing.assert_array_equal(found.targets[0], [0.5, np.nan])
    found = table(STEPS.replace("run", ""), task="per-step")
    assert found.classes == ("sit",) and [one.tolist() for one in found.targets] == [[0, 0, -1], [-1, 0]]
    with pytest.raises(FileError, match="no step of case 0 has a class; leave the case out"):
        table(STEPS.replace("sit", "", 2).replace("run", "", 1), task="per-step")
    with pytest.raises(FileError, match='has no target for each step, which task="per-step" needs'):
        table("label,t0,t1\na,1,2\nb,3,4\n", task="per-step")
    with pytest.raises(ValueError, match="read got task='steps'; give one of classify, regress, per-step"):
        table(STEPS, task="steps")


def test_a_target_for_each_step_in_folders_and_npz(tmp_path):
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("time,x,activity\n0,1,sit\n1,2,run\n")
    found = read(tmp_path, task="per-step")
    assert [one.tolist() for one in found.targets] == [[1, 0]] * 2 and found.ids == ("1.csv", "2.csv")
    y = np.array([[0, 1, 1], [1, 1, 0]])
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=y, lengths=np.array([3, 2]), classes=np.array(["p", "q"]))
    found = read(tmp_path / "a.npz", task="per-step")
    assert [one.tolist() for one in found.targets] == [[0, 1, 1], [1, 1]] and found.classes == ("p", "q")
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=y / 2)
    assert read(tmp_path / "a.npz", task="per-step").targets[0].tolist() == [0, 0.5, 0.5]


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"a\.parquet is Parquet, which needs pyarrow; install it"):
        read(tmp_path / "a.parquet")


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow is not None
    when = pd.date_range("2024-01-01", periods=3, freq="h")
    frame = pd.DataFrame(
        {"id": ["a"] * 3 + ["b"] * 3, "time": [*when, *when], "x": np.arange(6.0), "label": list("uuuvvv")}
    )
    frame.to_parquet(tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert shapes(found) == [(3, 1)] * 2 and found.classes == ("u", "v") and found.step == 3600
    pd.DataFrame({f"t{i}": [1.5, np.nan] for i in range(3)}, index=[5, 3]).to_parquet(tmp_path / "b.parquet")
    assert shapes(read(tmp_path / "b.parquet")) == [(3, 1), (1, 1)]
    data = (tmp_path / "a.parquet").read_bytes()
    rng = np.random.default_rng(0)
    for k in range(300):
        broken = bytearray(data[: rng.integers(1, len(data))] if k % 2 else data)
        for _ in range(3):
            broken[rng.integers(0, len(broken))] ^= 1 << rng.integers(0, 8)
        (tmp_path / "a.parquet").write_bytes(broken)
        try:
            read(tmp_path / "a.parquet")
        except FileError as error:
            assert "a.parquet" in str(error) and "\n" not in str(error)


def test_parquet_as_a_stand_in_gives_it(tmp_path, monkeypatch):
    """The use of pyarrow's results, with a substitute where it is not installed."""

    class Column(list):
        to_pylist = list.copy

    class File:
        def __init__(self, path):
            group = types.SimpleNamespace(total_byte_size=100)
            self.metadata = types.SimpleNamespace(num_row_groups=1, num_rows=3, row_group=lambda i: group)
            self.schema_arrow = types.SimpleNamespace(names=["id", "when", "x", "__index_level_0__"])

        def iter_batches(self, size):
            days = [datetime.datetime(2024, 1, 1 + k) for k in range(3)]
            yield types.SimpleNamespace(
                columns=[Column("aaa"), Column(days), Column([1.5, None, 2]), Column([7, 8, 9])]
            )

    module = types.ModuleType("pyarrow")
    module.parquet = types.ModuleType("pyarrow.parquet")
    module.parquet.ParquetFile = File
    monkeypatch.setitem(sys.modules, "pyarrow", module)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module.parquet)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    found = read(tmp_path / "a.parquet")
    np.testing.assert_array_equal(found.series[0], np.array([[1.5], [np.nan], [2]], np.float32))
    assert found.step == 86400 and found.ids == ("a",) and "left out: '' (row numbers)" in found.guess
