"""The pattern applies, is right, and near misses stay right, on every device here and on NumPy."""

from netcl_plugin_kit.testing import conformance

TestConformance = conformance("netcl-plugin-gated-rms-norm")
