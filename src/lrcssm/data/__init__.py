"""Data: readers, data sets by name, splits, cases and batches."""

from .batching import (
    Batch as Batch,
    arrange as arrange,
    batches as batches,
    full_size as full_size,
    make_batch as make_batch,
    padded_lengths as padded_lengths,
)
from .bundled import digits as digits
from .cases import Cases as Cases
from .catalogue import load as load, names as names
from .dataset import Dataset as Dataset
from .readers.frames import from_frame as from_frame
from .splits import Split as Split
