"""The recurrences, one file for each family."""

from .base import Cell as Cell, Envelope as Envelope
from .dense import DenseLRC as DenseLRC, DenseLTC as DenseLTC, DenseSTC as DenseSTC
from .gru import GRU as GRU, MGU as MGU
from .lrc import LRC as LRC
from .lstm import LSTM as LSTM
from .ltc import LTC as LTC
from .stc import STC as STC

ALL: dict[str, type[Cell]] = {
    cell.__name__: cell for cell in (LRC, STC, LTC, GRU, MGU, LSTM, DenseLRC, DenseSTC, DenseLTC)
}
"""Every cell by its name; the tests run over it."""
