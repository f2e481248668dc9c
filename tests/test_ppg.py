"""PPG-DaLiA: a small archive of the same structure, against loops; and malicious pickles."""

import functools
import os
import pickle
import struct

import numpy as np
import pytest
from wing import entries

from lrcssm import plugins
from lrcssm.data import load
from lrcssm.files import FileError
from lrcssm_paper import ppg
from lrcssm_paper.ppg import LAYOUTS, find_people, pieces, ppg_dalia, read_notes

WINDOW, STRIDE = 6, 2


def recording(seconds, seed):
    """The content of a person's file, including unneeded fields."""
    rng = np.random.default_rng(seed)
    wrist = {
        "ACC": rng.normal(size=(32 * seconds, 3)), "BVP": 50 * rng.normal(size=(64 * seconds, 1)),
        "EDA": rng.uniform(0, 3, (4 * seconds, 1)), "TEMP": 30 + rng.uniform(size=(4 * seconds, 1)),
    }  # fmt: skip
    chest = {"ECG": rng.normal(size=(7 * seconds, 1))}
    label = 60 + 40 * rng.uniform(size=(seconds - 8) // 2 + 1)
    more = {
        "activity": np.zeros((4 * seconds, 1)),
        "questionnaire": {"AGE": np.int64(30), "Gender": " m"},
        "rpeaks": [1, 2],
    }
    return {"signal": {"chest": chest, "wrist": wrist}, "label": label, "subject": f"S{seed}", **more}


def python_2(value):
    """A pickle as Python 2 with numpy 1 wrote it: text and the numbers of arrays are strings of bytes."""
    if isinstance(value, dict):
        return b"}(" + b"".join(python_2(one) for pair in value.items() for one in pair) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(python_2(one) for one in value) + b"e"
    if isinstance(value, str):
        return b"T" + struct.pack("<I", len(value)) + value.encode("latin1")
    if isinstance(value, (int, np.int64)):
        return b"J" + struct.pack("<i", int(value))
    dtype = b"cnumpy\ndtype\n(" + python_2(value.dtype.str[1:]) + b"K\x00K\x01tR"
    dtype += b"(K\x03" + python_2("<") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    shape = b"(" + b"".join(python_2(size) for size in value.shape) + b"t"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + python_2("b") + b"tR"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + python_2(value.tobytes().decode("latin1")) + b"tb"


@pytest.fixture
def archive(tmp_path):
    """Three people; the second's file is one of Python 2."""
    folder = tmp_path / "PPG_FieldStudy"
    for number, seconds in {1: 120, 2: 160, 10: 131}.items():
        (folder / f"S{number}").mkdir(parents=True)
        content = recording(seconds, number)
        data = b"\x80\x02" + python_2(content) + b"." if number == 2 else pickle.dumps(content, protocol=2)
        (folder / f"S{number}" / f"S{number}.pkl").write_bytes(data)
        (folder / f"S{number}" / "S1_quest.csv").write_text("AGE, 30")
    return folder


def expected(seconds, number, layout):
    """The windows of a person by part, in plain loops."""
    content = recording(seconds, number)
    wrist, scaled = content["signal"]["wrist"], {}
    for name, signal in {**wrist, "label": content["label"]}.items():
        scaled[name] = (signal - signal.min()) / (signal.max() - signal.min()) * 2 - 1
    rates = [scaled["label"][0]] * 3 + list(scaled["label"])
    rows = []
    for step in range(64 * seconds):
        rows.append([*scaled["ACC"][step // 2], scaled["BVP"][step, 0], scaled["EDA"][step // 16, 0],
                     scaled["TEMP"][step // 16, 0]])  # fmt: skip
    count = len(rates)
    sizes = {"train": int(0.7 * count), "validation": int(0.15 * count)}
    sizes["test"] = count - sizes["train"] - sizes["validation"]
    found, start = {}, 0
    for index in layout:
        part = ("train", "validation", "test")[index]
        found[part], end = [], start + sizes[part]
        first = start
        while first + WINDOW <= end:
            last = first + WINDOW
            found[part].append((np.array(rows[128 * first : 128 * last]), np.array(rates[first:last])))
            first += STRIDE
        start = end
    return found


def test_against_loops(archive):
    seen = set()
    for seed in range(4):
        dataset = ppg_dalia(archive, seed, window=WINDOW, stride=STRIDE)
        assert dataset.task == "regress" and dataset.targets.shape == (len(dataset), WINDOW)
        assert dataset.series[0].shape == (128 * WINDOW, 6) and dataset.series[0].dtype == np.float32
        layouts = [LAYOUTS[np.random.default_rng((seed, number)).integers(6)] for number in (1, 2, 10)]
        seen |= set(layouts)
        wanted = [
            expected(*person, layout) for person, layout in zip([(120, 1), (160, 2), (131, 10)], layouts, strict=True)
        ]
        for part, which in dataset.split._asdict().items():
            windows = [window for person in wanted for window in person[part]]
            assert len(which) == len(windows) > 0
            for i, (series, rates) in zip(which, windows, strict=True):
                np.testing.assert_allclose(dataset.series[i], series, atol=1e-6)
                np.testing.assert_allclose(dataset.targets[i], rates, atol=1e-12)
        assert np.concatenate(dataset.split).tolist() == list(range(len(dataset)))
    assert len(seen) > 2


def test_a_heart_rate_belongs_to_the_end_of_its_seconds(tmp_path):
    """The label of the seconds from 2 i to 2 i + 8 belongs to the last step before 2 i + 8."""
    content = recording(120, 1)
    count = len(content["label"])
    content["label"] = np.arange(count, dtype=float)
    content["signal"]["wrist"]["BVP"] = np.arange(64 * 120, dtype=float)[:, None]
    (tmp_path / "S1").mkdir()
    (tmp_path / "S1" / "S1.pkl").write_bytes(pickle.dumps(content, protocol=2))
    dataset = ppg_dalia(tmp_path, window=WINDOW, stride=STRIDE)
    for series, rates in zip(dataset.series, dataset.targets, strict=True):
        steps = (series[127::128, 3] + 1) / 2 * (64 * 120 - 1)
        labels = (rates + 1) / 2 * (count - 1)
        later = labels > 0.5
        np.testing.assert_allclose((steps[later] + 1) / 64, 2 * labels[later] + 8, atol=0.01)


def test_the_same_seed_gives_the_same_and_people_do_not_depend_on_each_other(archive):
    first, same, other = (ppg_dalia(archive, seed, window=WINDOW, stride=STRIDE) for seed in (0, 0, 3))
    np.testing.assert_array_equal(first.targets, same.targets)
    assert not np.array_equal(first.targets, other.targets)
    (archive / "S1" / "S1.pkl").unlink()
    fewer = ppg_dalia(archive, 0, window=WINDOW, stride=STRIDE)
    rows = {row.tobytes() for row in first.targets[first.split.test]}
    assert all(row.tobytes() in rows for row in fewer.targets[fewer.split.test])


def test_windows_share_memory(archive):
    dataset = ppg_dalia(archive, window=WINDOW, stride=STRIDE)
    a, b = dataset.series[0], dataset.series[1]
    assert np.shares_memory(a, b)
    np.testing.assert_array_equal(a[128 * STRIDE :], b[: -128 * STRIDE])
    assert dataset.cases().series[0].base is dataset.series[0].base


def test_pieces():
    for layout in range(6):
        found = pieces(1001, layout)
        assert [end - start for start, end in found] == [700, 150, 151]
        assert sorted(found)[0][0] == 0 and [a[1] for a in sorted(found)] == [*(a[0] for a in sorted(found)[1:]), 1001]
    assert len({tuple(pieces(1001, layout)) for layout in range(6)}) == 6


def test_load_knows_the_folder(archive, monkeypatch):
    monkeypatch.setattr(ppg, "ppg_dalia", functools.partial(ppg_dalia, window=WINDOW, stride=STRIDE))
    found = entries("readers")
    monkeypatch.setattr(plugins, "find", lambda group: found if group == "readers" else {})
    for place in (archive, archive.parent):
        assert load(place).name == "PPG-DaLiA" and len(find_people(place)) == 3
    renamed = archive.rename(archive.with_name("PPG-DaLiA"))
    assert len(load("PPG-DaLiA", directory=renamed.parent)) == len(load(renamed))


class Call:
    """Its pickle calls something."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def test_a_hostile_pickle_is_refused(archive, tmp_path):
    trace = tmp_path / "trace"
    for harm in (
        Call(os.system, f"touch {trace}"),
        Call(eval, f"open({str(trace)!r}, 'w')"),
        Call(exec, "import this"),
    ):
        for content in (harm, recording(120, 1) | {"label": harm}, {"unused": [harm]}):
            (archive / "S1" / "S1.pkl").write_bytes(pickle.dumps(content, protocol=2))
            with pytest.raises(FileError, match=r"S1.pkl would call \w+.(system|eval|exec), which no data needs"):
                ppg_dalia(archive, window=WINDOW, stride=STRIDE)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut off, damaged or not a pickle"),
        (b"hello", "cut off, damaged or not a pickle"),
        (b"\x80\x02}.", "does not hold signal, wrist, ACC"),
        (b"\x80\x02K\x01.", "does not hold signal, wrist, ACC"),
        (b"\x80\x02N" + b"r" + struct.pack("<I", 2**32 - 1) + b".", "made to fill the memory"),
        (b"\x80\x02Np4294967295\n.", "made to fill the memory"),
        (b"\x80\x02cnumpy\ndtype\n}b.", "cut off, damaged"),  # the type itself is to be changed
        (b"\x80\x02cnumpy\nndarray\n(K\x01tR.", "cut off, damaged"),
        (b"\x80\x02cnumpy\nload\n.", "would call numpy.load"),
        (b"\x80\x02cbuiltins\ngetattr\n.", "would call builtins.getattr"),
        (b"\x80\x02\x82\x01.", "cut off, damaged"),  # an entry of a registry
        (b"Pname\n.", "cut off, damaged"),  # something that is kept elsewhere
    ],
)
def test_damage(archive, data, says):
    (archive / "S1" / "S1.pkl").write_bytes(data)
    with pytest.raises(FileError, match=says):
        ppg_dalia(archive, window=WINDOW, stride=STRIDE)


def test_what_is_no_array_of_numbers(archive):
    def refused(name, value, says="as arrays of numbers"):
        content = recording(120, 1)
        (content if name == "label" else content["signal"]["wrist"])[name] = value
        (archive / "S1" / "S1.pkl").write_bytes(pickle.dumps(content, protocol=4))
        with pytest.raises(FileError, match=says):
            ppg_dalia(archive, window=WINDOW, stride=STRIDE)

    for value in (None, 3, [1.0, 2.0], np.array([1, None]), np.array(["a"]), np.zeros(3, complex), np.zeros((5, 2))):
        refused("ACC", value)
    refused("label", np.full(50, np.nan), "values of label that are not finite")
    refused("label", np.zeros(0), "empty recording")
    refused("BVP", np.zeros((0, 1)), "empty recording")


def test_an_array_that_lies_about_its_size(archive):
    whole = (archive / "S2" / "S2.pkl").read_bytes()
    shape = b"(" + b"J" + struct.pack("<i", 32 * 160)
    assert whole.count(shape) == 1
    (archive / "S2" / "S2.pkl").write_bytes(whole.replace(shape, b"(" + b"J" + struct.pack("<i", 2**30)))
    with pytest.raises(FileError, match="as arrays of numbers"):
        ppg_dalia(archive, window=WINDOW, stride=STRIDE)


def test_every_beginning_of_a_file_is_refused(archive):
    path = archive / "S1" / "S1.pkl"
    small = {"signal": {"wrist": {}}, "label": np.arange(3.0)}
    data = pickle.dumps(small, protocol=2)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FileError):
            read_notes(path)


def test_nothing_to_read(tmp_path, archive):
    with pytest.raises(FileError, match=r"holds no S1/S1\.pkl"):
        ppg_dalia(tmp_path / "S1")
    with pytest.raises(FileError, match="too short to give windows of 390"):
        ppg_dalia(archive)
