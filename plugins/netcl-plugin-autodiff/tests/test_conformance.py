"""The plugin's scenarios, on every device."""

from __future__ import annotations

from netcl_plugin_kit.testing import conformance

TestConformance = conformance("netcl-plugin-autodiff")
