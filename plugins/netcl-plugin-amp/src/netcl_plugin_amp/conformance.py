"""The scenarios of mixed precision."""

from __future__ import annotations

from typing import Final

from netcl_plugin_amp.scaler_scenarios import SCALER

SCENARIOS: Final = [*SCALER]
