"""Each point is run once, even if workers die; and the journal that they write."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

import optuna
import pytest
from studies import NINE, SHORT, again, made, options, states

from lrcssm import cli
from lrcssm.training import fit
from lrcssm.tuning import run as run_module, worker
from lrcssm.tuning.claims import claim
from lrcssm.tuning.run import Run
from lrcssm.tuning.storage import FileLock, open_place
from lrcssm.tuning.study import Study, unfinished
from lrcssm.tuning.worker import Shift, work

# Races, and workers that die


def test_a_trial_is_one_worker_s(instant):
    study, _ = made(options())
    trial = study.trials()[0]
    with claim(study, trial, None) as first, claim(again(), trial, None) as second:
        assert first is not None and not first.again and second is None
        assert states(again()) == ["RUNNING", "WAITING"]


def test_a_list_of_trials_may_be_old(instant):
    """Between the list and the claim another may have begun a trial, or finished it."""
    study, material = made(options())
    old = list(study.trials().values())
    work(again(), material)
    for trial in old:
        with claim(study, trial, None) as mine:
            assert mine is None
    assert not Shift(study, material, None, []).one_of(old)
    assert instant == [(1e-3, 0), (1e-2, 0)]


def test_a_worker_dies_after_its_claim(instant):
    """Before or after its first step: another worker continues as soon as the lock is free."""
    study, material = made(options())
    with claim(study, study.trials()[0], None):
        pass  # and it is gone, without a word
    assert states(study) == ["RUNNING", "WAITING"]
    with claim(again(), study.trials()[0], None) as mine:
        assert mine is not None and mine.again
    work(study, material)
    assert states(study) == ["COMPLETE", "COMPLETE"]


def test_two_find_the_same_dead_trial(instant):
    study, _ = made(options())
    with claim(study, study.trials()[0], None):
        pass
    found = [threading.Event(), threading.Event()]
    taken = []

    def take(own):
        other = again()
        trial = other.trials()[0]
        found[own].set()
        found[1 - own].wait()
        with claim(other, trial, None) as mine:
            taken.append(mine is not None)
            found[own].clear()
            while found[1 - own].is_set():  # nobody lets go before both have tried
                time.sleep(0.001)

    threads = [threading.Thread(target=take, args=(own,)) for own in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False, True]


def test_a_worker_dies_with_half_of_the_settings(instant):
    """The values that a sampler has chosen are kept."""
    start = options(space="search", trials=1, vary=("learning_rate=1e-4..1e-1", "weight_decay=1e-3..1e-1"))
    study, material = made(start)
    with claim(study, study.trials()[0], None):
        study.optuna.sampler = optuna.samplers.RandomSampler(seed=7)
        rate = optuna.Trial(study.optuna, study.id_of(study.trials()[0])).suggest_float(
            "learning_rate", 1e-4, 1e-1, log=True
        )
    work(again(), material)
    (trial,) = study.trials().values()
    assert trial.params["learning_rate"] == rate and 1e-3 <= trial.params["weight_decay"] <= 1e-1
    assert instant == [(rate, 0)]


@pytest.mark.slow
def test_a_worker_dies_before_it_tells_its_result(monkeypatch):
    study, material = made(options(vary=("learning_rate=1e-2",)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Shift, "_told", lambda self, running, **outcome: sys.exit())
        work(study, material)
    assert states(study) == ["RUNNING"]
    (result,) = study.folder.glob("*/*/result.json")
    monkeypatch.setattr(run_module, "fit", lambda *args, **more: pytest.fail("a finished run was run again"))
    work(again(), material)
    (trial,) = study.trials().values()
    assert trial.value == json.loads(result.read_text())["score"]


def test_an_interrupted_trial_goes_on_from_its_checkpoint(monkeypatch):
    """It ends like an uninterrupted one, and does not repeat its reports."""
    start = options("whole", vary=("learning_rate=1e-2",), pruner="median")
    whole, material = made(start)
    work(whole, material)
    cut, _ = made(dataclasses.replace(start, study="cut"))

    def stop(step):
        if step == 35:
            raise SystemExit

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(run_module, "fit", lambda *args, tick, **more: fit(*args, tick=stop, **more))
        work(cut, material)
    assert list(cut.folder.rglob("checkpoint*")) and sorted(cut.trials()[0].intermediate_values) == [10, 20, 30]
    steps = []
    monkeypatch.setattr(run_module, "fit", lambda *args, tick, **more: fit(*args, tick=steps.append, **more))
    work(again("cut"), material)
    assert steps[0] in (11, 21, 31) and steps[-1] == SHORT["steps"]
    assert cut.trials()[0].value == whole.trials()[0].value
    assert cut.trials()[0].intermediate_values == whole.trials()[0].intermediate_values


def test_ctrl_c(instant, monkeypatch):
    study, material = made(options())

    def score(run, material, solver, report, tick):
        shift.interrupted.append(True)
        tick(1)

    monkeypatch.setattr(Run, "score", score)
    shift = Shift(study, material, None, [])
    with pytest.raises(KeyboardInterrupt, match="interrupted in trial 0; lrcssm tune worker s resumes it"):
        shift.one_of(unfinished(study.trials()))
    assert study.trials()[0].user_attrs["deaths"] == []


def test_a_trial_that_kills_its_workers_is_given_up(instant):
    study, material = made(options())
    for deaths in range(worker.LIVES):
        assert states(study)[0] == ("RUNNING" if deaths else "WAITING")
        with claim(study, study.trials()[0], None) as mine:
            assert mine is not None
            if mine.again:
                assert not Shift(study, material, None, [])._deadly(mine.trial)
    work(study, material)
    assert states(study) == ["FAIL", "COMPLETE"] and "workers in a row died" in study.trials()[0].user_attrs["error"]


def test_one_that_gets_further_is_not(instant):
    study, material = made(options())
    for deaths in range(2 * worker.LIVES):
        with claim(study, study.trials()[0], None) as mine:
            assert mine is not None
            if mine.again:
                assert not Shift(study, material, None, [])._deadly(mine.trial)
            study.place.storage.set_trial_intermediate_value(study.id_of(mine.trial), deaths + 1, 0.5)
    work(study, material)
    assert states(study) == ["COMPLETE", "COMPLETE"]


def test_show_knows_who_died(instant, capsys):
    study, _ = made(options())
    with claim(study, study.trials()[0], None):
        assert cli.main(["tune", "show", "s", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["abandoned"] == 0
    assert cli.main(["tune", "show", "s"]) == 0
    assert "1 of the running trials lost their worker" in capsys.readouterr().out


def test_whoever_makes_a_study_dies(instant):
    """After the name but before the plan, only the same command can continue; after some of its points, any worker can."""
    place = open_place("s", None, make=True)
    optuna.create_study(study_name="s", storage=place.storage, direction="maximize")
    with pytest.raises(ValueError, match="has no plan"):
        again()
    start = options(vary=NINE)
    study, material = made(start)
    points = study.plan.space.points()

    other = open_place("t", None, make=True)
    found = optuna.create_study(study_name="t", storage=other.storage, direction="maximize")
    found.set_user_attr("plan", study.plan.to_json())
    for number in (0, 1, 5):
        found.enqueue_trial(points[number], user_attrs={"point": number})
    half = Study.load("t", other)
    half.complete()
    half.complete()
    assert sorted(half.trials()) == list(range(9)) and len(found.get_trials()) == 9
    assert [half.settings(half.trials()[number]) for number in range(9)] == points
    work(half, material)
    assert states(half) == ["COMPLETE"] * 9 and len(instant) == 9


def test_two_make_a_study_at_the_same_time(instant):
    """On two machines: neither sees the other's lock, and each point is there twice. One of each is run."""
    study, material = made(options(vary=NINE))
    for number, settings in enumerate(study.points()):
        study.optuna.enqueue_trial(settings, user_attrs={"point": number})
    assert len(study.optuna.get_trials()) == 18 and len(study.trials()) == 9
    work(study, material)
    assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9
    assert [trial.number for trial in study.trials().values()] == list(range(9))


def test_on_one_machine_only_one_completes_a_study(instant):
    study, _ = made(options(vary=NINE))
    study.place.storage.delete_study(study.number)
    found = optuna.create_study(study_name="s", storage=study.place.storage, direction="maximize")
    found.set_user_attr("plan", study.plan.to_json())
    threads = [threading.Thread(target=lambda: again().complete()) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found.get_trials()) == 9


def test_a_study_of_someone_else(instant):
    place = open_place("s", None, make=True)
    optuna.create_study(study_name="s", storage=place.storage, direction="maximize").enqueue_trial({"x": 1})
    with pytest.raises(ValueError, match="was not made by lrcssm"):
        made(options(), place)


# The journal


def test_a_writer_that_is_killed_leaves_no_lock_and_no_half_line(instant):
    study, material = made(options(vary=NINE))
    path = pathlib.Path("runs/tune/s.journal")
    before = path.read_bytes()
    code = f"""
import os, pathlib, sys
sys.path[:0] = {sys.path!r}
from lrcssm.tuning.storage import FileLock
path = pathlib.Path({str(path)!r})
FileLock(path).acquire()
with path.open("ab") as file:
    file.write(b'{{"op_code":6,"worker_id":"x","trial_id":3,"sta')
print("locked", flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and done.stdout == "locked\n", done.stderr
    assert not path.read_bytes().endswith(b"\n")
    begin = time.perf_counter()
    work(again(), material)
    assert time.perf_counter() - begin < 10
    assert states(study) == ["COMPLETE"] * 9
    assert path.read_bytes().startswith(before) and b'"worker_id":"x"' not in path.read_bytes()
    for line in path.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize("text", [b"", b"{", b"{}\n", b"{}\n{", b"{}\n" + b"x" * 10_000, b"x" * 10_000])
def test_mending(text, here):
    path = here / "journal"
    path.write_bytes(text)
    lock = FileLock(path)
    lock.acquire()
    lock.release()
    assert path.read_bytes() == (b"{}\n" if b"\n" in text else b"")


def test_a_journal_is_written_by_one_at_a_time(here):
    path = here / "journal"
    path.touch()
    lock, other = FileLock(path), FileLock(path)
    lock.acquire()
    taken = threading.Event()
    thread = threading.Thread(target=lambda: (other.acquire(), taken.set()))
    thread.start()
    assert not taken.wait(0.1)
    lock.release()
    thread.join(10)
    assert taken.is_set()
    other.release()
