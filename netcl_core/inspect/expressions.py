"""The expressions of elementwise kernels, as trees: reading and changing them.

    >>> from netcl_core.inspect.expressions import Name, parse, substitute, to_c
    >>> to_c(substitute(parse("x * x", ["x"], "square"), {"x": Name("y")}))
    'y * y'

A primitive's templates are parsed into `Expr`: a `Name`, a `Number`, or an `Apply` of an operator
or a function to operands.
"""

from __future__ import annotations

from netcl_core.codegen.emit import NUMPY_NAMES as NUMPY_NAMES
from netcl_core.codegen.expressions import BITWISE as BITWISE
from netcl_core.codegen.expressions import COMPARISONS as COMPARISONS
from netcl_core.codegen.expressions import FUNCTIONS as FUNCTIONS
from netcl_core.codegen.expressions import LOGICAL as LOGICAL
from netcl_core.codegen.expressions import MASKS as MASKS
from netcl_core.codegen.expressions import PREDICATES as PREDICATES
from netcl_core.codegen.expressions import Apply as Apply
from netcl_core.codegen.expressions import Expr as Expr
from netcl_core.codegen.expressions import Name as Name
from netcl_core.codegen.expressions import Number as Number
from netcl_core.codegen.expressions import folded as folded
from netcl_core.codegen.expressions import is_mask as is_mask
from netcl_core.codegen.expressions import parse as parse
from netcl_core.codegen.expressions import shortened as shortened
from netcl_core.codegen.expressions import substitute as substitute
from netcl_core.codegen.expressions import to_c as to_c
from netcl_core.codegen.expressions import walk as walk
from netcl_core.codegen.primitives import GRAD as GRAD
from netcl_core.codegen.primitives import OUT as OUT
from netcl_core.codegen.primitives import REQUIRED as REQUIRED
from netcl_core.codegen.primitives import RESULTS as RESULTS
from netcl_core.codegen.primitives import Choices as Choices
from netcl_core.codegen.primitives import Parsed as Parsed
from netcl_core.codegen.primitives import split_attrs as split_attrs
from netcl_core.codegen.ssa import Block as Block
