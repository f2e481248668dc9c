"""Batches of cases, padded to few lengths and sizes, so that few programs are compiled.

Lengths come from a fixed ladder (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …: four rungs for each power of two) and not from the
data at hand, so that training, validation, prediction and the folds of a cross-validation share compiled programs.
"""

from collections.abc import Iterator, Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from ..errors import InvalidValue
from .cases import Cases

MOST_LENGTHS = 3
"""Largest number of padded lengths for one set of cases."""
FEW_PATCHES = 40
"""Number of patches up to which padding costs less than compiling another program."""


class Batch(eqx.Module):
    """Cases padded to one length; a pytree, so that compiled functions take it.

    ```python
    import numpy as np
    from lrcssm.data import Cases, batches

    cases = Cases.of([np.zeros((30, 2)), np.ones((50, 2))], targets=[0, 1])
    for batch, positions in batches(cases, size=4):
        print(batch.inputs.shape, batch.weights, positions)  # (56, 2, 2) [1. 1.] [0 1]
    ```

    **Attributes:**

    - `inputs`: `(time, batch, channels)`, zero after the end of a series.
    - `mask`: `(time, batch)`, true at observed steps, or `None` if all are.
    - `dt`: `(time, batch)`, or `None` if it is always 1.
    - `targets`: `(batch, ...)`, or `(time, batch, ...)` if each step has its own; `None` without targets.
    - `weights`: `(batch,)`, the weight of each case in the loss; 0 for padding cases.
    """

    inputs: Float[Array | np.ndarray, "time batch channels"]
    mask: Bool[Array | np.ndarray, "time batch"] | None
    dt: Float[Array | np.ndarray, "time batch"] | None
    targets: Shaped[Array | np.ndarray, "..."] | None
    weights: Float[Array | np.ndarray, " batch"]

    def weighted(self, class_weights: Float[np.ndarray, " classes"] | None) -> "Batch":
        """Multiply the weight of each case by that of its class; `None` changes nothing."""
        if class_weights is None:
            return self
        if self.targets is None or self.targets.shape != self.weights.shape or self.targets.dtype.kind not in "iu":
            raise InvalidValue("class_weights were given, but the targets are not one class for each case.")
        weights = (self.weights * class_weights[np.asarray(self.targets)]).astype(self.weights.dtype)
        return Batch(self.inputs, self.mask, self.dt, self.targets, weights)


def batches(
    cases: Cases,
    size: int,
    rng: np.random.Generator | None = None,
    *,
    lengths: Sequence[int] | None = None,
    multiple: int = 1,
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Iterate over all cases once, in batches of equal size.

    **Arguments:**

    - `cases`: the cases.
    - `size`: cases in a batch. With fewer cases than that, the next power of two is used.
    - `rng`: shuffles the cases; they keep their order within a length if it is not given.
    - `lengths`: as for `arrange`.
    - `multiple`: batches are filled up to a multiple of this, for devices that share them.

    **Returns:**

    An iterator of batches, each with the positions of its cases. Padding cases have weight 0 and no position.
    """
    full = full_size(len(cases), size, multiple)
    for length, which in arrange(cases, size, rng, lengths=lengths):
        yield make_batch(cases, length, which, full), which


def arrange(
    cases: Cases, size: int, rng: np.random.Generator | None = None, *, lengths: Sequence[int] | None = None
) -> list[tuple[int, np.ndarray]]:
    """Assign cases to batches.

    Cases of similar length share a batch. Cases that do not fill a batch of one length go to the next longer one, so that
    all batches but the last are full.

    **Arguments:**

    - `cases`, `size`, `rng`: as for `batches`.
    - `lengths`: lengths to pad to, from `padded_lengths`; chosen for these cases alone if not given.

    **Returns:**

    For each batch the length that its cases are padded to and their positions. The number of batches and how many have which
    length do not depend on `rng`.
    """
    own = np.array([len(one) for one in cases.series])
    ends = np.array(padded_lengths(cases) if lengths is None else sorted(lengths))
    if own.max() > ends[-1]:
        raise InvalidValue(
            f"arrange got lengths up to {ends[-1]} for a series of {own.max()} steps; use padded_lengths."
        )
    bucket = np.searchsorted(ends, own)
    groups, left = [], np.zeros(0, int)
    used = np.unique(bucket)
    for i in used:
        which = np.flatnonzero(bucket == i)
        which = np.concatenate([left, which if rng is None else rng.permutation(which)])
        count = len(which) if i == used[-1] else len(which) - len(which) % size
        groups += [(int(ends[i]), which[start : min(start + size, count)]) for start in range(0, count, size)]
        left = which[count:]
    return groups if rng is None else [groups[i] for i in rng.permutation(len(groups))]


def padded_lengths(cases: Cases, known: Sequence[int] = (), *, patch: int = 1) -> tuple[int, ...]:
    """Choose the lengths that cases are padded to.

    ```python
    import numpy as np
    from lrcssm.data import Cases, padded_lengths

    print(padded_lengths(Cases.of(np.zeros((5, 100, 1)))))  # (100,)
    train = Cases.of([np.zeros((n, 1)) for n in range(1, 501)])
    print(padded_lengths(train))  # (128, 256, 512)
    print(padded_lengths(Cases.of(np.zeros((5, 100, 1))), known=(128, 256, 512)))  # (128,)
    ```

    **Arguments:**

    - `cases`: cases of equal or unequal lengths.
    - `known`: lengths for which programs are compiled already, e.g. those of the training cases: each case is padded to the
        shortest of these that holds it, unless that would more than double it.
    - `patch`: steps that the model joins into one. If even the longest case has few patches (`few_patches`), one length serves
        all cases: a further program would take longer to compile than the padding to compute.

    **Returns:**

    Increasing lengths: those of `known` that are used, and for the other cases their own length if all have the same and
    nothing is known, else a rung of the ladder above the longest, its half and its quarter.
    """
    own = np.unique([len(one) for one in cases.series])
    if not len(known) and len(own) == 1:
        return (int(own[0]),)
    whole = min((int(one) for one in known if one >= own[-1]), default=rung(int(own[-1])))
    if few_patches(whole, patch):
        return (whole,)
    ladder = np.array(sorted(known), int)
    place = np.searchsorted(ladder, own)
    near = np.append(ladder, 0)[place]
    served = (near > 0) & (near <= 2 * own)
    found = set(near[served].tolist())
    if not served.all():
        top = rung(int(own[~served].max()))
        ends = np.array(sorted({-(-top // 2**i) for i in range(MOST_LENGTHS)}))
        found |= set(ends[np.searchsorted(ends, own[~served])].tolist())
    return tuple(sorted(int(one) for one in found))


def few_patches(length: int, patch: int) -> bool:
    """True if a case of this length has at most 40 patches; always false without patches."""
    return patch > 1 and -(-length // patch) <= FEW_PATCHES


def rung(length: int) -> int:
    """Round a length up to the ladder: 2^k times 1, 1.25, 1.5 or 1.75, as far as these are whole numbers."""
    quarter = max(2 ** ((length - 1).bit_length() - 3), 1)
    return -(-length // quarter) * quarter


def full_size(count: int, size: int, multiple: int = 1) -> int:
    """Cases in each batch of a set of `count` cases: `size`, or the next power of two if there are fewer; then rounded up to a
    multiple."""
    full = min(size, 2 ** (count - 1).bit_length())
    return -(-full // multiple) * multiple


def make_batch(cases: Cases, length: int, which: np.ndarray, size: int) -> Batch:
    """Make a batch, padded to `length` steps and filled up to `size` with copies of weight 0.

    **Arguments:**

    - `cases`: the source of the batch.
    - `length`, `which`: an element of the result of `arrange`.
    - `size`: at least as many as `which` has.
    """
    # Copies, not zeros: without a mask for padding cases, full batches and others run the same compiled program.
    columns = np.concatenate([which, np.full(size - len(which), which[0])])
    inputs = np.zeros((length, size, cases.channels), cases.series[0].dtype)
    mask = np.zeros((length, size), bool)
    dt = None if cases.dt is None else np.ones((length, size), inputs.dtype)
    for column, i in enumerate(columns):
        one = cases.series[i]
        inputs[: len(one), column], mask[: len(one), column] = one, True if cases.valid is None else cases.valid[i]
        if dt is not None and cases.dt is not None:
            dt[: len(one), column] = cases.dt[i]
    weights = np.ones(len(cases)) if cases.weights is None else cases.weights
    return Batch(
        inputs=inputs,
        # The same for all batches of a set, also for one that has no padding by chance.
        mask=mask if cases.ragged or length != len(cases.series[0]) else None,
        dt=dt,
        targets=_targets(cases, columns, length),
        weights=np.where(np.arange(size) < len(which), weights[columns], 0).astype(inputs.dtype),
    )


def _targets(cases: Cases, columns: np.ndarray, length: int) -> np.ndarray | None:
    if not isinstance(cases.targets, tuple):
        return None if cases.targets is None else cases.targets[columns]
    first = cases.targets[0]
    found = np.zeros((length, len(columns), *first.shape[1:]), first.dtype)
    for column, i in enumerate(columns):
        found[: len(cases.targets[i]), column] = cases.targets[i]
    return found
