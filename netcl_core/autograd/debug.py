"""debug_tape, under the path that the documentation gives it."""

from __future__ import annotations

from netcl_core.tape.tape import debug_tape as debug_tape
