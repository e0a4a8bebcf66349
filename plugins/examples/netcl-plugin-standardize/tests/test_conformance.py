"""Values, gradients, dtypes, shapes, fusion and more, on every OpenCL device here and on NumPy."""

from netcl_plugin_kit.testing import conformance

TestConformance = conformance("netcl-plugin-standardize")
