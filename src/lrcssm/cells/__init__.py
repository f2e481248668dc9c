"""The recurrences, one file for each family."""

from .base import Cell as Cell, Envelope as Envelope
from .dense import DenseLRC as DenseLRC, DenseLTC as DenseLTC, DenseSTC as DenseSTC
from .gru import GRU as GRU, MGU as MGU
from .linoss import LinOSS as LinOSS
from .lrc import LRC as LRC
from .lru import LRU as LRU
from .lstm import LSTM as LSTM
from .ltc import LTC as LTC
from .s4 import S4D as S4D, LiquidS4 as LiquidS4
from .s5 import S5 as S5
from .s6 import S6 as S6
from .stc import STC as STC

ALL: dict[str, type[Cell]] = {
    cell.__name__: cell
    for cell in (LRC, STC, LTC, GRU, MGU, LSTM, LRU, S5, LinOSS, S6, S4D, LiquidS4, DenseLRC, DenseSTC, DenseLTC)
}
"""Every cell by its name; the tests run over it."""
