"""Non-linear recurrent models that train on very long sequences as fast as linear state-space models."""

from . import cells as cells
from .checks import check_agreement as check_agreement
from .checks import check_structure as check_structure
from .engine import (
    DEER as DEER,
)
from .engine import (
    ELK as ELK,
)
from .engine import (
    Auto as Auto,
)
from .engine import (
    Jacobi as Jacobi,
)
from .engine import (
    Sequential as Sequential,
)
from .engine import (
    Solution as Solution,
)
from .engine import (
    SolveError as SolveError,
)
from .engine import (
    Status as Status,
)
from .engine import (
    linear_recurrence as linear_recurrence,
)
from .engine import (
    solve as solve,
)

__version__ = "0.1.0"
