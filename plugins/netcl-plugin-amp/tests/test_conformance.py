"""The plugin's policies and scenarios on every device."""

from __future__ import annotations

from netcl_core.testing.suite import conformance

TestConformance = conformance("netcl-plugin-amp")
