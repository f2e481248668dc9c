"""Data: cases and batches, splits, readers, and data sets by name."""

from .bundled import digits as digits
from .cases import Batch as Batch, Cases as Cases, batches as batches
from .catalogue import load as load, names as names
from .dataset import Dataset as Dataset
from .splits import Split as Split
