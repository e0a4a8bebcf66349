"""Where the `netcl` script begins: two commands without the command line's own library.

`netcl plugins list` reads some small files and nothing else, and importing click would
take a good part of its time. `netcl plugins lock --check` judges plugins, so that none may be
imported before. All other commands, and every other spelling of the first, take the usual way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys

from netcl_core.market import market_module


def main() -> None:
    """The entry point of the `netcl` script."""
    words = sys.argv[1:]
    if "--json" in words:
        _keep_stdout()
    listed = words in (["plugins", "list"], ["plugins", "list", "--json"])
    if listed or (words[:2] == ["plugins", "lock"] and "--check" in words):
        try:
            market = market_module("listing" if listed else "lock_check")
            run = None if market is None else market.show_list if listed else market.run
            code = None if run is None else run("--json" in words if listed else words[2:])
            sys.stdout.flush()
        except BrokenPipeError:  # its reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        except Exception as error:  # what the command line makes of it is decided there
            code = _call("endings", "ended_by", error)
        if code is not None:
            sys.exit(code)
    _call("main", "main")


def _keep_stdout() -> None:
    """Keep stdout for the JSON: what plugins and drivers write to the descriptor goes to stderr."""
    with contextlib.suppress(OSError, ValueError):  # closed, or no file
        kept = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = open(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: PTH123, SIM115


def _call(module: str, function: str, *arguments: object) -> int:
    called = getattr(importlib.import_module(f"netcl_core.cli.{module}"), function)
    code: int = called(*arguments)
    return code


if __name__ == "__main__":
    main()
