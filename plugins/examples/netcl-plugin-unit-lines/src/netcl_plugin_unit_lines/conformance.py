"""What the implementation is tried with: the operator's own cases have lines that it refuses."""

from __future__ import annotations

from netcl_plugin_kit.testing import Case, normal

#: Lines that no vector divides, the longest, a last work-item with fewer lines, few elements,
#: and some lines that it refuses.
CASES = [
    Case(
        "l2_normalize",
        (normal(),),
        lambda t, x: t.nn.functional.normalize(x, dim=-1),
        shapes=[[(64, 4)], [(13, 9, 17)], [(65, 256)], [(200, 3)], [(3, 5)]],
    ),
]
