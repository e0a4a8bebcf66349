"""Group sizes that a simulator tries where a launch leaves them open.

A runtime may choose any then, and the simulator takes groups of one item, in which no barrier
diverges and no item waits for another.
"""

from __future__ import annotations

import re
from typing import Final

from netcl_core.inspect.streams import Launch

#: The words of a kernel whose items have to do with their group.
_OF_GROUPS: Final = re.compile(
    r"\b(?:barrier|work_group_\w+|get_local_\w+|get_group_id|__local|local)\b"
)
_LARGEST: Final = 64


def sized(launch: Launch) -> list[Launch]:
    """The same launch in groups of several sizes; none where its groups do not matter."""
    if launch.local_size is not None or not _OF_GROUPS.search(launch.source):
        return []
    first, *others = launch.global_size
    sizes = [size for size in range(2, _LARGEST + 1) if first % size == 0]
    rest = (1,) * len(others)
    return [
        Launch(launch.kernel, launch.global_size, (size, *rest), launch.constants, launch.who)
        for size in sorted({*sizes[:1], *sizes[-1:]}, reverse=True)
    ]
