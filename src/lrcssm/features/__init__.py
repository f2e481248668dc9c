"""Random liquid features: statistics of the states of untrained `LRC` units, for a linear read-out."""

from .explain import Explanation as Explanation, explain as explain
from .forecast import ForecastModel as ForecastModel
from .map import FeatureMap as FeatureMap
from .model import LiquidConfig as LiquidConfig, LiquidModel as LiquidModel
from .parts import Parts as Parts
from .statistics import STATISTICS as STATISTICS
from .views import STREAMED as STREAMED, VIEWS as VIEWS
