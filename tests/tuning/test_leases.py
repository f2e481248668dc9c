"""Workers on several machines, which see each other's leases alone."""

import threading

import optuna
from optuna.trial import TrialState
from studies import NINE, dead, made, options, pair, states, until

from lrcssm.tuning import claims, worker
from lrcssm.tuning.claims import Leases, Lost, claim
from lrcssm.tuning.run import Run
from lrcssm.tuning.storage import Place
from lrcssm.tuning.study import unfinished
from lrcssm.tuning.worker import Shift, work


def test_a_lease_is_over_when_it_has_stood_still(shared, instant, monkeypatch):
    """By the clock of the watching worker, also after a long suspension."""
    study, _, ours, theirs, _ = pair(shared)
    trial_id, now = dead(study), 0.0
    monkeypatch.setattr(claims.time, "monotonic", lambda: now)
    assert not theirs.over(trial_id)
    for beat in range(3):
        ours.write(trial_id, beat)
        now += 1000
        assert not theirs.over(trial_id)
    now += 59
    assert not theirs.over(trial_id)
    now += 2
    assert theirs.over(trial_id)


def test_a_worker_keeps_its_lease(shared, instant):
    study, other, ours, theirs, _ = pair(shared)
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None
        until(lambda: theirs.read(study.id_of(mine.trial))["beat"] > 2)
        assert theirs.read(study.id_of(mine.trial))["owner"] == ours.me
        with claim(other, other.trials()[0], theirs) as second:
            assert second is None
        mine.check()


def test_a_lease_that_stands_still_is_taken(shared, instant):
    """Also that of a worker that died between its claim and its first sign of life."""
    study, other, ours, theirs, material = pair(shared, grace=0.3, vary=("learning_rate=1e-3,1e-2,1e-1",))
    ours.write(dead(study, 0), 5)
    dead(study, 1)
    for trial in list(other.trials().values())[:2]:
        with claim(other, trial, theirs) as mine:
            assert mine is None  # it has only just been seen
    work(other, material, leases=theirs)
    assert states(study) == ["COMPLETE"] * 3 and len(instant) == 3


def test_of_two_that_take_a_lease_the_last_has_it(shared, instant, monkeypatch):
    """Both saw that it had expired. While one waits, the other writes its name."""
    study, _, ours, theirs, _ = pair(shared, grace=-1.0)
    trial_id = dead(study)
    assert ours.over(trial_id) and theirs.over(trial_id)
    monkeypatch.setattr(claims.time, "sleep", lambda seconds: theirs.write(trial_id, 0))
    assert not ours.taken(trial_id)
    assert ours.read(trial_id)["owner"] == theirs.me


def test_one_that_comes_too_late_does_not_take_it(shared, instant):
    """It saw an expired lease, but another worker was faster."""
    study, _, ours, theirs, _ = pair(shared, grace=-1.0)
    trial_id = dead(study)
    assert ours.over(trial_id) and theirs.over(trial_id)
    assert ours.taken(trial_id) and not theirs.taken(trial_id)
    assert ours.read(trial_id)["owner"] == ours.me


def test_a_worker_that_was_out_of_reach_stops(shared, instant):
    study, _, ours, theirs, _ = pair(shared)
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None
        theirs.write(study.id_of(mine.trial), 0)  # another has taken it meanwhile

        def stopped():
            try:
                mine.check()
            except Lost:
                return True
            return False

        until(stopped)


def test_a_worker_that_lost_its_trial_leaves_it(shared, instant, monkeypatch):
    """At its next step, without a report to the study."""
    study, _, ours, theirs, material = pair(shared)

    def score(run, material, solver, report, tick):
        theirs.write(study.id_of(study.trials()[0]), 0)
        until(lambda: tick(1))

    monkeypatch.setattr(Run, "score", score)
    said = []
    monkeypatch.setattr(worker, "_say", said.append)
    assert Shift(study, material, ours, []).one_of(unfinished(study.trials()))
    assert "taken over by another worker" in said[0]
    assert states(study)[0] == "RUNNING" and not theirs.over(study.id_of(study.trials()[0]))


def test_a_storage_that_is_out_of_reach_for_long(shared, instant, monkeypatch):
    study, _, ours, _, _ = pair(shared, grace=1.0)
    calls = []
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None

        def fail(trial_id):
            calls.append(trial_id)
            raise OSError("no route to host")

        monkeypatch.setattr(study.place.storage, "get_trial", fail)
        until(lambda: mine._lost.is_set())
    assert len(calls) > 1


def test_two_finish_the_same_trial(shared, instant):
    """The first result counts, and the second is ignored."""
    study, other, _, _, material = pair(shared)
    trial = study.trials()[0]
    study.place.storage.set_trial_state_values(study.id_of(trial), TrialState.RUNNING)
    first, second = (optuna.Trial(one.optuna, one.id_of(trial)) for one in (study, other))
    Shift(study, material, None, [])._told(first, values=0.5)
    Shift(other, material, None, [])._told(second, values=0.7)
    assert Shift(other, material, None, [])._failed(trial, "late") == "failed: late"
    assert study.trials()[0].value == 0.5 and states(study) == ["COMPLETE", "WAITING"]


def test_a_database(here, instant):
    """SQLite, which is good enough for one worker."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{here}/study.db")
    try:
        study, material = made(options(vary=NINE), Place(storage, here, local=False))
        leases = Leases(study, grace=0.3, settle=0.0)
        dead(study)
        work(study, material, leases=leases)
        assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9
    finally:
        storage.remove_session()
        storage.engine.dispose()


def test_machines_share_a_study(shared, instant):
    """Two workers at once, through a database, and no lock between them."""
    study, other, ours, theirs, material = pair(shared, vary=NINE)
    threads = [
        threading.Thread(target=work, args=(one, material), kwargs={"leases": leases})
        for one, leases in ((study, ours), (other, theirs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9
