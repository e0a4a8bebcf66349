"""The `netcl` command, and what the commands of plugins share with it.

    from netcl_core.cli import complain, print_json, print_table, usage_ends

Importing this package imports none of them: `netcl plugins list` has to start without click.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from netcl_core.cli.endings import complain as complain
    from netcl_core.cli.endings import usage_ends as usage_ends
    from netcl_core.cli.tables import print_json as print_json
    from netcl_core.cli.tables import print_table as print_table

#: name -> its module
_MODULE_OF: Final = {
    "complain": "endings",
    "usage_ends": "endings",
    "print_json": "tables",
    "print_table": "tables",
}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
