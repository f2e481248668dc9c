"""Exclusive claims of workers on trials.

A trial belongs to the worker that holds the lock of its folder. The operating system releases the lock of a process that
dies, so a trial that the storage calls running, but whose folder is not locked, has lost its worker; the next worker that
locks it resumes it. The lock is taken before the storage is read, so there is no race.

Workers on other machines do not see such locks. Where a study is kept in a database, a worker also holds a *lease*: an
attribute of the trial with the worker's name and a counter. A lease has expired when its counter has not changed for a while,
by the clock of the worker that watches it. To take it over, a worker writes its own name, waits a moment and reads it again: of
several that try, the last one to write has it. A worker that was suspended and lost its lease detects this at its next beat and
stops. If both finish the trial, the first result counts, and the second is the same.

Optuna's own heartbeat and retry do less: only its SQL storage has heartbeats (neither a journal nor the gRPC proxy), a stale
trial is found after a grace period even on one machine, and it is marked as failed and queued again under another number, so
its checkpoint and its reports would have to be carried over.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from ..locks import alone
from .study import Study

LEASE = "lease"


class Lost(Exception):
    """Raised if the trial of a disconnected worker was taken over by another."""


class Leases:
    """Leases of a worker.

    **Arguments:**

    - `study`: the study with the trials.
    - `interval`: seconds between two beats.
    - `grace`: seconds without a beat after which a lease has expired; also how long the storage may be out of reach.
    - `settle`: seconds between taking a lease over and the check that no other worker did so later.
    """

    def __init__(self, study: Study, interval: float = 10.0, grace: float = 60.0, settle: float = 2.0):
        self.study = study
        self.interval = interval
        self.grace = grace
        self.settle = settle
        self.me = uuid.uuid4().hex
        self._seen: dict[int, tuple[Any, float]] = {}

    def read(self, trial_id: int) -> Any:
        """The lease of a trial: its owner and beat, or `None`."""
        return self.study.place.storage.get_trial(trial_id).user_attrs.get(LEASE)

    def write(self, trial_id: int, beat: int) -> None:
        """Write a lease in the name of this worker."""
        self.study.place.storage.set_trial_user_attr(trial_id, LEASE, {"owner": self.me, "beat": beat})

    def over(self, trial_id: int) -> bool:
        """Test for a lease whose beat has not changed for the grace period, while this worker watched it."""
        found, now = self.read(trial_id), time.monotonic()
        last, since = self._seen.setdefault(trial_id, (found, now))
        if found != last:
            self._seen[trial_id] = (found, now)
            return False
        return now - since > self.grace

    def taken(self, trial_id: int) -> bool:
        """Take an expired lease over; false if another worker did so."""
        if self.read(trial_id) != self._seen.pop(trial_id)[0]:
            return False
        self.write(trial_id, 0)
        time.sleep(self.settle)
        found = self.read(trial_id)
        return found is not None and found["owner"] == self.me

    @contextlib.contextmanager
    def kept(self, trial_id: int) -> Iterator[threading.Event]:
        """Renew a lease in the background; yields an event that is set once the lease is lost."""
        lost, stop = threading.Event(), threading.Event()
        thread = threading.Thread(target=self._keep, args=(trial_id, lost, stop), daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            stop.set()
            thread.join()

    def _keep(self, trial_id: int, lost: threading.Event, stop: threading.Event) -> None:
        beat, heard = 0, time.monotonic()
        while not stop.wait(self.interval):
            try:
                now = self.study.place.storage.get_trial(trial_id)
                if now.state.is_finished() or now.user_attrs[LEASE]["owner"] != self.me:
                    lost.set()
                    return
                beat += 1
                self.write(trial_id, beat)
                heard = time.monotonic()
            except Exception:  # storages raise errors of many kinds when they are out of reach
                if time.monotonic() - heard > self.grace:
                    lost.set()
                    return


class Claim:
    """A trial that belongs to this worker.

    **Attributes:**

    - `trial`: its state at the time of the claim.
    - `again`: true if an earlier worker died while running it.
    """

    def __init__(self, trial: FrozenTrial, again: bool, lost: threading.Event | None):
        self.trial = trial
        self.again = again
        self._lost = lost

    def check(self) -> None:
        """Raise `Lost` if another worker has taken the trial over."""
        if self._lost is not None and self._lost.is_set():
            raise Lost


@contextlib.contextmanager
def claim(study: Study, trial: FrozenTrial, leases: Leases | None) -> Iterator[Claim | None]:
    """Claim a trial within a `with` block; yields `None` if it is finished or belongs to another worker.

    **Arguments:**

    - `study`, `trial`: the trial and its study.
    - `leases`: of this worker, if workers do not all see each other's locks.
    """
    storage, trial_id = study.place.storage, study.id_of(trial)
    with alone(study.folder_of(trial).path) as mine, contextlib.ExitStack() as stack:
        if not mine:
            yield None
            return
        now = storage.get_trial(trial_id)
        again = now.state == TrialState.RUNNING
        if again:
            held = leases is None or (leases.over(trial_id) and leases.taken(trial_id))
        else:
            held = now.state == TrialState.WAITING and _begun(storage, trial_id)
        if not held:
            yield None
            return
        lost = None
        if leases is not None:
            leases.write(trial_id, 0)
            lost = stack.enter_context(leases.kept(trial_id))
        yield Claim(now, again, lost)


def _begun(storage: Any, trial_id: int) -> bool:
    """Set a waiting trial to running; false if another worker was faster."""
    try:
        return storage.set_trial_state_values(trial_id, TrialState.RUNNING)
    except UpdateFinishedTrialError:
        return False
