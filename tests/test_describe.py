"""Descriptions of a data set: facts, remarks on oddities, and sketches of its cases."""

import dataclasses
import json

import numpy as np
import pytest

from lrcssm.data import Dataset, Split
from lrcssm.report.dataset import facts
from lrcssm.report.sketch import examples, sketch


def little(**changes):
    series = (np.array([[1.0], [2]]), np.array([[3.0], [np.nan], [5]]), np.array([[1.0], [2]]), np.array([[0.0], [4]]))
    made = Dataset(
        "little", tuple(one.astype(np.float32) for one in series), np.array([0, 1, 0, 1]), ("a", "b", "none"),
        Split(np.array([0, 1]), np.arange(0), np.array([2, 3])), about="Made up.",
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_facts():
    found = facts(little())
    assert found["lengths"] == {"min": 2, "median": 2.0, "max": 3}
    assert found["classes"] == {"a": 2, "b": 2, "none": 0}
    assert found["missing"] == {"values": 1, "cases": 1}
    assert found["split"] == {"train": 2, "validation": 0, "test": 2}
    assert found["duplicates"] == {"cases": 1, "test cases that are also in training": 1}
    seen = [1, 2, 3, 5, 1, 2, 0, 4]
    assert found["values"] == pytest.approx({"min": 0, "mean": np.mean(seen), "max": 5, "sd": np.std(seen)})
    assert found["times"] is None
    assert [remark.partition(":")[0] for remark in found["remarks"]] == [
        "Values are missing", "Without a case", "1 test cases are also in training",
    ]  # fmt: skip
    json.dumps(found, allow_nan=False)


def test_facts_of_numbers_and_times():
    times = tuple(np.cumsum(np.r_[0, np.ones(len(one) - 1) / (1 + i)]) for i, one in enumerate(little().series))
    found = facts(little(classes=None, targets=np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), times=times, split=None))
    assert found["task"] == "regress" and "classes" not in found
    assert [column["mean"] for column in found["targets"]] == [3, 4]
    assert found["times"]["regular"] is False and found["times"]["min"] == 0.25 and found["times"]["max"] == 1
    assert found["split"] is None
    regular = facts(little(times=tuple(np.arange(len(one)) / 2 for one in little().series)))
    assert regular["times"] == {"regular": True, "min": 0.5, "median": 0.5, "max": 0.5}


def test_facts_of_what_is_odd():
    one = np.ones((2, 3), np.float32)
    found = facts(Dataset("odd", (one, one.copy())))
    assert any("more channels (3) than steps (2)" in remark for remark in found["remarks"])
    assert any("Channels 0, 1, 2 are constant" in remark for remark in found["remarks"])
    assert found["task"] == "none"
    infinite = facts(Dataset("odd", (np.array([[np.inf], [1]], np.float32), np.full((2, 1), np.nan, np.float32))))
    assert any("infinite" in remark for remark in infinite["remarks"])
    nothing = facts(Dataset("odd", (np.full((2, 1), np.nan, np.float32),)))
    assert nothing["values"] == {"min": None, "mean": None, "max": None, "sd": None}


def dots(lines):
    """The grid of dots that lines of braille stand for, by what Unicode says of each."""
    bits = {(0, 0): 1, (1, 0): 2, (2, 0): 4, (0, 1): 8, (1, 1): 16, (2, 1): 32, (3, 0): 64, (3, 1): 128}
    grid = np.zeros((4 * len(lines), 2 * len(lines[0])), bool)
    for i, line in enumerate(lines):
        for j, character in enumerate(line):
            for (row, column), bit in bits.items():
                grid[4 * i + row, 2 * j + column] = bool(ord(character) - 0x2800 & bit)
    return grid


def test_sketches():
    ramp = dots(sketch(np.arange(8.0), width=4, height=2))
    np.testing.assert_array_equal(
        ramp.argmax(0), np.arange(8)[::-1]
    )  # the highest dot falls from the left to the right
    assert ramp[7, 0] and ramp[0, 7] and not ramp[0, :6].any()
    level = dots(sketch(np.full(100, 7.0), width=5))
    assert level.any(0).all() and level.any(1).sum() == 1
    few = dots(sketch(np.array([0.0, 1]), width=10, height=1))
    assert few.any(0).all() and few[3, 0] and few[0, 19]
    gap = dots(sketch(np.array([0.0, 0, np.nan, np.nan, 1, 1]), width=3))
    assert gap.any(0).tolist() == [True, True, False, False, True, True]
    assert not dots(sketch(np.full(5, np.nan), width=3)).any()
    assert dots(sketch(np.array([2.0]), width=3)).sum() >= 1
    late = dots(sketch(np.array([0.0, 0, 0, 1]), np.array([0.0, 1, 2, 100]), width=10, height=1))
    assert late[3, :3].all() and late[0, 19] and not late[0, :10].any()


def test_examples():
    assert examples(little()) == [("a", [0]), ("b", [1])]
    assert examples(little(), each=2) == [("a", [0, 2]), ("b", [1, 3])]
    numbers = little(classes=None, targets=np.array([4.0, 1, 3, 2]))
    assert examples(numbers) == [("1", [1]), ("3", [2]), ("4", [0])]
    assert examples(little(classes=None, targets=None)) == [("", [0, 1, 2])]


def test_facts_of_targets_for_each_step():
    made = little(targets=tuple(np.arange(len(one)) % 2 for one in little().series), guess="Rows are steps.")
    found = facts(made)
    assert found["task"] == "per-step" and found["classes"] == {"a": 5, "b": 4, "none": 0}
    assert found["guess"] == "Rows are steps." and examples(made) == [("", [0, 1, 2])]
    numbers = facts(little(classes=None, targets=tuple(np.full(len(one), 0.5) for one in little().series)))
    assert numbers["targets"][0]["mean"] == 0.5
