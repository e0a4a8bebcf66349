"""Each product is what the cases of netcl-plugin-linalg say, in every dtype on every device."""

from __future__ import annotations

from netcl_plugin_kit.testing import conformance

TestConformance = conformance("netcl-plugin-tensorcore")
