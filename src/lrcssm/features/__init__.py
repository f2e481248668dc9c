"""Random liquid features: statistics of the states of untrained `LRC` units, for a linear read-out."""

from .forecast import ForecastModel as ForecastModel
from .map import FeatureMap as FeatureMap
from .model import LiquidConfig as LiquidConfig, LiquidModel as LiquidModel
from .statistics import STATISTICS as STATISTICS
from .views import VIEWS as VIEWS
