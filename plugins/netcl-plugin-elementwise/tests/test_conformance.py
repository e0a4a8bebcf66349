"""Every elementwise op is what its case says, in every dtype on every device."""

from __future__ import annotations

from elementwise_cases import CASES

from netcl_core.testing.suite import conformance

TestConformance = conformance("netcl-plugin-elementwise", CASES)
