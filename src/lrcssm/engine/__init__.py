"""How a recurrence is evaluated over time."""

from .recurrence import linear_recurrence as linear_recurrence
from .solution import Solution as Solution
from .solution import SolveError as SolveError
from .solution import Status as Status
from .solve import solve as solve
from .solvers import DEER as DEER
from .solvers import ELK as ELK
from .solvers import Auto as Auto
from .solvers import Jacobi as Jacobi
from .solvers import Sequential as Sequential
from .solvers import Solver as Solver
