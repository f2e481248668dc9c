"""Evaluation of a recurrence over time: solvers, gradients, solutions."""

from .abstract import AbstractSolver as AbstractSolver
from .recurrence import linear_recurrence as linear_recurrence
from .solution import Solution as Solution, SolveError as SolveError, Status as Status
from .solve import solve as solve
from .solvers import (
    DEER as DEER,
    ELK as ELK,
    Auto as Auto,
    Jacobi as Jacobi,
    Sequential as Sequential,
    Sharded as Sharded,
    Solver as Solver,
)
