"""The `netcl` command, and what the commands of plugins share with it.

    from netcl_core.cli import complain, print_json, print_table, usage_ends
    from netcl_core.cli import device_data, print_devices, print_parts

Importing this package imports none of them: `netcl plugins list` has to start without click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from netcl_core.plugins.namespace_import import fetched

if TYPE_CHECKING:
    from netcl_core.cli.devices import device_data as device_data
    from netcl_core.cli.devices import print_devices as print_devices
    from netcl_core.cli.devices import print_parts as print_parts
    from netcl_core.cli.endings import complain as complain
    from netcl_core.cli.endings import usage_ends as usage_ends
    from netcl_core.cli.tables import print_json as print_json
    from netcl_core.cli.tables import print_table as print_table

#: module -> its names
_NAMES: Final = {
    "cli.devices": "device_data print_devices print_parts",
    "cli.endings": "complain usage_ends",
    "cli.tables": "print_json print_table",
}
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_MODULE_OF]
__getattr__ = fetched(__name__, _MODULE_OF)
