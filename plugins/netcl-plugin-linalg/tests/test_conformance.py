"""Every op of this plugin is what its cases say, in every dtype on every device."""

from __future__ import annotations

from netcl_plugin_kit.testing import conformance

TestConformance = conformance("netcl-plugin-linalg")
