"""The public function of each op by name: what tensors' methods and operators call.

The table makes an entry on its first look-up. The plugin system, which lies above, says how and
clears the table whenever an op comes or goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final


class OpFunctions(dict[str, Callable[..., Any]]):
    """Op name -> function; `functions["add"](x, y)`.

    Attributes:
        build: Makes the function of a name and says whether it may be kept; raises MissingOpError.
        names: The names of all installed ops.
    """

    build: Callable[[str], tuple[Callable[..., Any], bool]] | None = None
    names: Callable[[], Sequence[str]] = staticmethod(lambda: ())

    def __missing__(self, name: str) -> Callable[..., Any]:
        if self.build is None:
            raise KeyError(name)
        function, kept = self.build(name)
        if kept:
            self[name] = function
        return function


functions: Final = OpFunctions()
