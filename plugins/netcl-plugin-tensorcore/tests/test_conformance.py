"""Each product is what the cases of netcl-plugin-linalg say, in every dtype on every device."""

from __future__ import annotations

from netcl_core.testing.suite import conformance

TestConformance = conformance("netcl-plugin-tensorcore")
