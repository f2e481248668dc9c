"""`lrcssm reproduce`: the runs of a table, on a small data set in place of the paper's."""

import concurrent.futures
import dataclasses
import json
import re

import jax
import numpy as np
import pytest
from wing import run

import lrcssm
from lrcssm.data import Dataset, Split
from lrcssm.data.problems import MULTIVARIATE
from lrcssm.training import evaluate, predict
from lrcssm.training.folder import Folder
from lrcssm.training.metrics import losses
from lrcssm_paper import cost, jobs, plan, records, reproduce
from lrcssm_paper.commands import Reproduce
from lrcssm_paper.published import DATASETS
from lrcssm_paper.splits import SEEDS
from lrcssm_paper.tables import TABLES

STEPS = 4


@pytest.fixture(autouse=True)
def defaults():
    """As users have it: data and models in single precision."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def scp1(monkeypatch):
    """41 cases of 12 steps in place of SelfRegulationSCP1, which has as many channels and classes; others are missing."""
    rng = np.random.default_rng(0)
    series = tuple(rng.normal(size=(12, 6)).astype(np.float32) for _ in range(41))
    data = Dataset("SelfRegulationSCP1", series, targets=np.arange(41) % 2, classes=("a", "b"))

    def load(name, directory=None):
        if name != "SelfRegulationSCP1":
            raise FileNotFoundError(name)
        return data

    monkeypatch.setattr(reproduce, "load", load)
    return data


def read_lines(store):
    return [json.loads(line) for line in (store / "results.jsonl").read_text().splitlines()]


def words(store, *more):
    base = ["reproduce", "table1", "--datasets", "SCP1", "--models", "LrcSSM", "--seeds", "2345", "3456"]
    return [*base, "--steps", str(STEPS), "--store", str(store), *more]


def test_runs_once_and_prints_ours_beside_the_published(scp1, tmp_path, capsys, monkeypatch):
    run(*words(tmp_path))
    out, err = capsys.readouterr()
    assert "85.2 ± 2.1" in out and "2/2" in out and "4 of 294,000" in out
    assert "Fewer steps than the published runs had at most." in out
    assert "0 of 2 runs are finished; 2 to go" in err and "2/2 LrcSSM, SCP1, seed 3456:" in err
    results = read_lines(tmp_path)
    assert [result["test_cases"] for result in results] == [7, 7] and results[0]["steps"] == STEPS
    assert {result["command"] for result in results} == {
        f"lrcssm reproduce table1 --models LrcSSM --datasets SCP1 --seeds {seed} --steps {STEPS}"
        for seed in (2345, 3456)
    }
    assert not list(tmp_path.glob("*/checkpoint*")) and len(list(tmp_path.glob("*/model.lrcssm"))) == 2
    assert [(result["table"], result["row"], result["seed"]) for result in results] == [
        ("table1", "LrcSSM", 2345),
        ("table1", "LrcSSM", 3456),
    ]
    assert results[0]["model"]["hidden_dim"] == 64 and results[0]["training"]["steps"] == STEPS
    kept = results[0]["time_constants"]
    assert [len(kept[when]) for when in ("before", "after")] == [2, 2] and len(kept["after"][0]) == len(
        kept["quantiles"]
    )
    assert kept["before"] != kept["after"] and results[0]["iterations_by_layer"] == [0.0, 0.0]

    monkeypatch.setattr(reproduce, "run_job", lambda *args: pytest.fail("a finished run was run again"))
    run(*words(tmp_path, "--json"))
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["ours"][0] == pytest.approx(100 * np.mean([result["test"] for result in results]))
    assert cell["ours"][1] == pytest.approx(100 * np.std([result["test"] for result in results]))
    assert (cell["published"], cell["runs"], cell["of"]) == ([85.2, 2.1], 2, 2)


def test_what_is_there_is_said(scp1, tmp_path, capsys):
    run(*words(tmp_path))
    asked = ["reproduce", "table1", "--datasets", "SCP1", "--models", "LrcSSM", "--store", str(tmp_path)]
    capsys.readouterr()
    run(*asked, "--show")
    assert f"There are runs of {STEPS} steps: give --steps." in capsys.readouterr().out
    run(*asked, "--plan", "--steps", str(STEPS), "--json")
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    assert (entry["runs"], entry["finished"]) == (5, 2) and entry["seconds"] > 0


def test_a_part_of_the_data_is_not_the_end(scp1, tmp_path, capsys, monkeypatch):
    """Missing splits and failed runs are noted in the table, and the other runs continue."""
    monkeypatch.setattr(reproduce, "load", lambda name, directory: dataclasses.replace(scp1, total=1000, index=None))
    run(*words(tmp_path))
    assert "the paper's split needs all of them, or an index" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(reproduce, "load", lambda name, directory: scp1)

    def fail(*args, **more):
        raise MemoryError("There is no room.")

    monkeypatch.setattr(reproduce, "run_job", fail)
    run(*words(tmp_path))
    assert "Failed: There is no room" in capsys.readouterr().out


def test_iterations_are_those_of_a_solver_that_has_some():
    assert {job.solver for job in plan.plan(Reproduce(table="iterations"))[0]} == {"deer"}
    assert {job.solver for job in plan.plan(Reproduce(table="iterations", solver="elk"))[0]} == {"elk"}
    assert {job.solver for job in plan.plan(Reproduce(table="nonlinear"))[0]} == {"auto"}


def test_ablations_have_the_epochs_of_each_set():
    made = lambda name: jobs.make_job(TABLES["nonlinear"], "GruSSM", name, 2345, "clean", {}, "auto").training
    found = {
        name: (made(name)["steps"], made(name)["check_every"], made(name)["patience"]) for name in ("SCP1", "Worms")
    }
    assert found == {"SCP1": (294_000, 98, 1000), "Worms": (123_000, 41, 100)}


def test_equal_is_equal():
    table = TABLES["equal"]
    for row in ("lrcssm", "s5", "mamba", "hyena", "transformer"):
        job = jobs.make_job(table, row, "SCP1", 2345, "clean", {}, "auto")
        assert job.model is not None and (job.model["bidirectional"], job.model["pool"]) == (False, "mean-max-std")


def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(scp1, tmp_path):
    job = jobs.make_job(TABLES["table1"], "LrcSSM", "SCP1", 2345, "clean", {"steps": STEPS, "check_every": 2}, "auto")
    whole = jobs.run_job(job, scp1, Folder(tmp_path / "whole"), reproduce.SOLVERS["auto"])

    def stop(step):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run_job(job, scp1, Folder(tmp_path / "cut"), reproduce.SOLVERS["auto"], stop)
    cut = jobs.run_job(job, scp1, Folder(tmp_path / "cut"), reproduce.SOLVERS["auto"])
    assert (cut["test"], cut["validation"], cut["best_step"]) == (
        whole["test"],
        whole["validation"],
        whole["best_step"],
    )
    assert (tmp_path / "cut" / "model.lrcssm").read_bytes() == (tmp_path / "whole" / "model.lrcssm").read_bytes()


def test_identity(scp1):
    def name(data=scp1, row="LrcSSM", table="table1", seed=2345, protocol: jobs.Protocol = "clean", **changes):
        job = jobs.make_job(TABLES[table], row, "SCP1", seed, protocol, changes, "auto")
        return job.identity(jobs.fingerprint(data))

    assert name() == name()
    series = (scp1.series[0] + 1, *scp1.series[1:])
    others = [
        name(seed=3456), name(steps=5), name(protocol="published"), name(table="nonlinear"), name(row="S5"),
        name(dataclasses.replace(scp1, series=series)), name(dataclasses.replace(scp1, targets=1 - scp1.targets)),
    ]  # fmt: skip
    assert len({name(), *others}) == 8
    # The same model in two tables is one run.
    assert name(table="nonlinear") == name(table="stc") == name(table="complex", row="real")


def test_results_are_merged_in_one_order(tmp_path):
    def record(row, seed, test, table="table1"):
        job = jobs.make_job(TABLES[table], row, "SCP1", seed, "clean", {}, "auto")
        return records.Record(job, table, "data", {"test": test})

    later = [record("S5", 3456, 0.1), record("LRU", 4567, 0.2), record("GruSSM", 2345, 0.3, "nonlinear")]
    records.add_results(tmp_path, later)
    records.add_results(tmp_path, [record("S5", 2345, 0.4), record("S5", 3456, 0.5)])
    lines = [(line["table"], line["row"], line["seed"], line["test"]) for line in read_lines(tmp_path)]
    assert lines == [
        ("table1", "LRU", 4567, 0.2), ("table1", "S5", 2345, 0.4), ("table1", "S5", 3456, 0.5), ("nonlinear", "GruSSM", 2345, 0.3),
    ]  # fmt: skip
    found = records.read_store(tmp_path)
    assert found[1] == record("S5", 2345, 0.4)
    text = (tmp_path / "results.jsonl").read_text()
    records.add_results(tmp_path, reversed(found))
    assert (tmp_path / "results.jsonl").read_text() == text
    # A record of a version that did not have a field yet, and a damaged one.
    old = json.loads(text.splitlines()[0])
    del old["model"]["matmul"], old["training"]["memory"]
    assert records.Record.from_line(json.dumps(old)) == found[0]
    (tmp_path / "results.jsonl").write_text(text + "{}\n")
    with pytest.raises(records.FileError, match="line 5: not a result"):
        records.read_store(tmp_path)


def test_processes_share_a_store(tmp_path):
    """Many write at once, and nothing is lost."""
    job = jobs.make_job(TABLES["equal"], "MiniRocket", "SCP1", 0, "clean", {}, "auto")
    each = [records.Record(dataclasses.replace(job, seed=seed), "equal", "data", {"test": 0.5}) for seed in range(12)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: records.add_results(tmp_path, [one]), each))
    assert records.read_results(tmp_path) == each


def test_ridge_on_the_training_part_and_on_both(scp1, monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "N_FEATURES", 320)
    made = [
        jobs.make_job(TABLES["table1"], row, "SCP1", 2345, "clean", {}, "auto")
        for row in ("LrcRidge", "LrcRidge (+ validation)")
    ]
    alone, both = (jobs.cases_of(job, scp1) for job in made)
    assert [len(part) for part in alone] == [28, 6, 7]
    assert both[0].series[:28] == alone[0].series and both[0].series[28:] == alone[1].series
    assert both[2].series == alone[2].series and made[0].identity("x") != made[1].identity("x")
    series = [np.sin((0.3 + 0.9 * (i % 2)) * np.arange(12))[:, None] * np.ones(6) + 1e-3 * i for i in range(41)]
    easy = dataclasses.replace(scp1, series=tuple(one.astype(np.float32) for one in series))
    found = [jobs.run_job(job, easy, jobs.Folder(tmp_path / job.row), None) for job in made]
    assert [one["train_cases"] for one in found] == [28, 34] and all(one["test"] == 1.0 for one in found)


def test_quirks_of_the_published_protocol(scp1):
    def made(dataset, protocol, row="LrcSSM"):
        return jobs.make_job(TABLES["table1"], row, dataset, 3456, protocol, {}, "auto")

    clean, quirky = made("SCP1", "clean"), made("SCP1", "published")
    assert [len(part) for part in jobs.cases_of(clean, scp1)] == [28, 6, 7]
    assert [len(part) for part in jobs.cases_of(quirky, scp1)] == [28, 4, 4]
    assert (clean.training["seed"], quirky.training["seed"]) == (3456, 0)
    clean, quirky = made("Ethanol", "clean"), made("Ethanol", "published")
    assert clean.model is not None and quirky.model is not None
    assert (clean.model["input_dim"], quirky.model["input_dim"]) == (3, 2)
    data = dataclasses.replace(scp1, series=tuple(one[:, :3] for one in scp1.series))
    np.testing.assert_array_equal(
        jobs.cases_of(quirky, data)[0].series[0], jobs.cases_of(clean, data)[0].series[0][:, 1:]
    )
    assert not made("SCP1", "published", "S5").quirks


def test_every_run_of_every_table_can_be_planned(capsys):
    for name, table in TABLES.items():
        if table.instead is None:
            found, refused = plan.plan(Reproduce(table=name))
            assert {job.row for job in found} | {row for row, _ in refused} == set(table.rows)
            assert all(cost.seconds(job) > 0 for job in found)
            assert {job.seed for job in found} == set(SEEDS)
    run("reproduce", "table1", "--plan")
    out = " ".join(capsys.readouterr().out.split())
    assert "Transformer cannot be run on Heart, SCP1, SCP2, Ethanol, Motor, Worms: no configuration is published" in out
    assert "0 of them finished; the others take about" in out
    run("reproduce", "table1", "--plan", "--json", "--models", "LrcSSM")
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 6


def test_data_that_is_not_there(scp1, tmp_path, capsys):
    run(*words(tmp_path, "--show")[:3], "Worms", *words(tmp_path, "--show")[4:])
    out = " ".join(capsys.readouterr().out.split())
    assert "EigenWorms is not there" in out and "0/2" in out and "90.6 ± 1.4" in out


@pytest.fixture
def rates(monkeypatch):
    """Data of the structure of PPG-DaLiA: 3 heart rates for 384 steps."""
    rng = np.random.default_rng(0)
    series = tuple(rng.normal(size=(384, 6)).astype(np.float32) for _ in range(9))
    targets = np.stack([one[127::128, 3] for one in series])
    split = Split(np.arange(5), np.arange(5, 7), np.arange(7, 9))
    data = Dataset("PPG-DaLiA", series, targets=targets, split=split)
    monkeypatch.setattr(reproduce, "load", lambda name, directory=None: data)
    return data


@pytest.mark.slow
def test_a_heart_rate_for_every_128th_step(rates):
    job = jobs.make_job(TABLES["ppg"], "S5", "PPG", 2345, "clean", {}, "auto")
    assert job.model is not None and (job.model["task"], job.model["output_dim"]) == ("per-step", 1)
    train, _, test = jobs.cases_of(job, rates)
    assert len(train) == 5 and isinstance(test.targets, tuple)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(test.targets[0])), [127, 255, 383])
    wanted = rates.targets[:5]
    np.testing.assert_allclose(train.statistics()[3:], [[wanted.mean()], [wanted.std()]], rtol=1e-5)
    config = jobs.ModelConfig.from_json(json.dumps(job.model | {"hidden_dim": 3, "state_dim": 4, "num_blocks": 1}))
    model = lrcssm.SequenceModel(config, jax.random.key(0)).with_statistics(*train.statistics())
    outputs = np.stack(predict(model, test))[:, 127::128, 0]
    errors = (outputs - rates.targets[7:]) ** 2
    assert evaluate(model, test)["mse"] == pytest.approx(errors.mean(), rel=1e-4)
    wide, targets = (jax.numpy.asarray(np.stack(parts, 1)) for parts in (predict(model, test), test.targets))
    each = losses(model, wide, targets, None, 0.0)
    np.testing.assert_allclose(each, errors.mean(1) / wanted.var(), rtol=1e-4)


@pytest.mark.slow
def test_ppg(rates, tmp_path, capsys):
    words = ["reproduce", "ppg", "--models", "S5", "--seeds", "2345", "--steps", "2", "--store", str(tmp_path)]
    run(*words)
    assert "12.63 ± 1.25" in capsys.readouterr().out
    (result,) = read_lines(tmp_path)
    outputs = predict(lrcssm.load(next(tmp_path.glob("*/model.lrcssm"))).model, rates.parts()[2])
    wanted = np.mean((np.stack(outputs)[:, 127::128, 0] - rates.targets[7:]) ** 2)
    assert result["test"] == pytest.approx(wanted, rel=1e-4) and result["validation"] < 0


def test_our_block_around_the_published_sizes():
    job = jobs.make_job(TABLES["table1"], "LrcSSM (our block)", "Ethanol", 2345, "published", {}, "auto")
    assert not job.quirks and job.model is not None
    wanted = {
        "hidden_dim": 128,
        "state_dim": 16,
        "num_blocks": 2,
        "layout": "plain",
        "patch": 1,
        "bidirectional": False,
        "differences": True,
    }
    assert wanted.items() <= job.model.items()
    assert {"learning_rate": 1e-4, "batch": 4, "steps": 2000, "monitor": "last"}.items() <= job.training.items()


def test_another_process_is_at_it(scp1, tmp_path, capsys):
    job = jobs.make_job(TABLES["table1"], "LrcSSM", "SCP1", 2345, "clean", {"steps": STEPS}, "auto")
    with reproduce.alone(tmp_path / job.identity(jobs.fingerprint(scp1))):
        run(*words(tmp_path))
    assert "1/2 LrcSSM, SCP1, seed 2345: in progress in another process." in capsys.readouterr().err
    assert [line["seed"] for line in read_lines(tmp_path)] == [3456]


def test_tables_are_complete(capsys):
    """Every average that the paper prints next to a row is that of its numbers."""
    averages = {
        "table1": {"NRDE": 60.2, "NCDE": 55.5, "Log-NCDE": 64.4, "LRU": 61.8, "S5": 63.1, "Mamba": 58.6, "S6": 62.0,
                   "LinOSS-IMEX": 65.0, "LinOSS-IM": 67.8, "Transformer": 59.0, "RFormer": 64.5, "LrcSSM": 65.6},
        "nonlinear": {"MguSSM": 63.2, "GruSSM": 63.1, "LstmSSM": 62.34, "LrcSSM": 65.4},
        "stc": {"StcSSM": 63.4}, "dense": {"dense": 63.3}, "dependence": {"A(u) b(x,u)": 65.0, "A(u) b(u)": 63.8},
        "complex": {"g, k": 64.6, "g, k, a": 65.4, "g, k, a, b": 66.2},
    }  # fmt: skip
    for table, rows in averages.items():
        for row, average in rows.items():
            scores = [score[0] for score in TABLES[table].rows[row].published.values() if not isinstance(score, str)]
            assert np.mean(scores) == pytest.approx(average, abs=0.06), (table, row)
    assert set(MULTIVARIATE) >= {name for short, name in DATASETS.items() if short != "PPG"}
    for name, table in TABLES.items():
        if table.instead is not None:
            run("reproduce", name)
            assert f"Ours: {table.instead}" in " ".join(capsys.readouterr().out.split())
    run("reproduce")
    listed = capsys.readouterr().out
    assert all(name in listed for name in TABLES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table9"], "There is no table 'table9'; give one of table1, "),
        (["table1", "--models", "LSTM"], "--models got 'LSTM'; this table has NRDE, "),
        (["table1", "--datasets", "SCP3"], "--datasets got 'SCP3'; this table has Heart, SCP1"),
    ],
)
def test_mistakes(arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        run("reproduce", *arguments)


def test_durations():
    assert [cost.in_words(seconds) for seconds in (5.0, 150.0, 5400.0, 40000.0, 3e5)] == [
        "5 seconds", "2.5 minutes", "90 minutes", "11 hours", "3.5 days",
    ]  # fmt: skip
