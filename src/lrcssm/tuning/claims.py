"""Who runs a trial.

Whoever has locked a trial's folder. The system forgets the lock of a process that dies, so a trial that is running in the
eyes of the storage, but whose folder no one has locked, has lost its worker, and is gone on with by whoever locks it next.
There is no moment at which that could be judged wrongly: the lock is taken first, then the storage is asked.

Workers on other machines do not see such locks. Where a study is kept in a database, a worker has a *lease* too: an
attribute of the trial with the worker's name and a number that it counts up. A lease whose number has stood still for a
while, by the clock of whoever watches, is over. To take it, a worker puts its name there, waits a moment and looks whether
it is still the one: of several, the last. A worker that was stopped for so long that it lost its lease finds out when it
counts up next and stops. Should it come to that, nothing is wrong but time: the trial is finished by the first of the two,
and both had the same to say.
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
    """A worker was out of reach for so long that another has taken its trial."""


class Leases:
    """The leases of a worker.

    **Arguments:**

    - `study`: whose trials they are for.
    - `interval`: seconds between two signs of life.
    - `grace`: seconds without one after which a worker counts as dead; also how long a storage may be out of reach.
    - `settle`: seconds that one that takes a lease waits for others that do the same.
    """

    def __init__(self, study: Study, interval: float = 10.0, grace: float = 60.0, settle: float = 2.0):
        self.study = study
        self.interval = interval
        self.grace = grace
        self.settle = settle
        self.me = uuid.uuid4().hex
        self._seen: dict[int, tuple[Any, float]] = {}

    def read(self, trial_id: int) -> Any:
        return self.study.place.storage.get_trial(trial_id).user_attrs.get(LEASE)

    def write(self, trial_id: int, beat: int) -> None:
        self.study.place.storage.set_trial_user_attr(trial_id, LEASE, {"owner": self.me, "beat": beat})

    def over(self, trial_id: int) -> bool:
        """Whether the lease of a running trial has stood still for so long as this worker has watched it."""
        found, now = self.read(trial_id), time.monotonic()
        last, since = self._seen.setdefault(trial_id, (found, now))
        if found != last:
            self._seen[trial_id] = (found, now)
            return False
        return now - since > self.grace

    def taken(self, trial_id: int) -> bool:
        """Takes a lease that is over; whether no other was later."""
        if self.read(trial_id) != self._seen.pop(trial_id)[0]:
            return False
        self.write(trial_id, 0)
        time.sleep(self.settle)
        found = self.read(trial_id)
        return found is not None and found["owner"] == self.me

    @contextlib.contextmanager
    def kept(self, trial_id: int) -> Iterator[threading.Event]:
        """Counts up in the background; gives what is set once the lease is lost."""
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
            except Exception:  # whatever a storage raises if it is out of reach
                if time.monotonic() - heard > self.grace:
                    lost.set()
                    return


class Claim:
    """A trial that is this worker's.

    **Attributes:**

    - `trial`: as it was when it was claimed.
    - `again`: whether a worker died at it.
    """

    def __init__(self, trial: FrozenTrial, again: bool, lost: threading.Event | None):
        self.trial = trial
        self.again = again
        self._lost = lost

    def check(self) -> None:
        """Raises `Lost` if it is another's by now."""
        if self._lost is not None and self._lost.is_set():
            raise Lost


@contextlib.contextmanager
def claim(study: Study, trial: FrozenTrial, leases: Leases | None) -> Iterator[Claim | None]:
    """Makes a trial this worker's for a while; gives `None` if it is another's or finished.

    **Arguments:**

    - `study`, `trial`: which.
    - `leases`: of this worker, if not all workers see each other's locks.
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
    """Turns a waiting trial into a running one; false if another was faster."""
    try:
        return storage.set_trial_state_values(trial_id, TrialState.RUNNING)
    except UpdateFinishedTrialError:
        return False
