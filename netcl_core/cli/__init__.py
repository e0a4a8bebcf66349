"""The `netcl` command, and what the commands of plugins share with it.

    from netcl_core.cli import complain, print_json, print_table, print_text, usage_ends
    from netcl_core.cli import waiting

Importing this package imports none of them: `netcl plugins list` has to start without click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.plugins.namespace_import import fetched

if TYPE_CHECKING:
    from netcl_core.cli.endings import complain as complain
    from netcl_core.cli.endings import usage_ends as usage_ends
    from netcl_core.cli.tables import print_json as print_json
    from netcl_core.cli.tables import print_table as print_table
    from netcl_core.cli.tables import print_text as print_text
    from netcl_core.cli.tables import waiting as waiting

__all__ = ["complain", "print_json", "print_table", "print_text", "usage_ends", "waiting"]
__getattr__ = fetched(
    __name__,
    dict.fromkeys(("complain", "usage_ends"), "cli.endings")
    | dict.fromkeys(("print_json", "print_table", "print_text", "waiting"), "cli.tables"),
)
