"""Data: cases and batches, splits, and what comes with the package."""

from .bundled import digits as digits
from .cases import Batch as Batch, Cases as Cases, batches as batches
from .dataset import Dataset as Dataset
from .splits import SEEDS as SEEDS, Split as Split, paper_split as paper_split
