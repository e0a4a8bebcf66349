"""Where the `netcl` script begins: one frequent command without the command line's own library.

`netcl plugins list` reads some small files and nothing else, and importing click would
take a good part of its time. All other commands, and every other spelling of this one,
take the usual way.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys


def main() -> None:
    """The entry point of the `netcl` script."""
    words = sys.argv[1:]
    plain = words in (["plugins", "list"], ["plugins", "list", "--json"])
    if plain and importlib.util.find_spec("netcl_market") is not None:
        try:
            code = _call("netcl_market.listing", "show_list", "--json" in words)
            sys.stdout.flush()
        except BrokenPipeError:  # its reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except Exception as error:  # what the command line makes of it is decided there
            code = _call("netcl_core.cli.endings", "ended_by", error)
        sys.exit(code)
    _call("netcl_core.cli.main", "main")


def _call(module: str, function: str, *arguments: object) -> int:
    found = getattr(importlib.import_module(module), function)
    code: int = found(*arguments)
    return code


if __name__ == "__main__":
    main()
