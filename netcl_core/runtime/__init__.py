"""Programs, memory and launches: what runs kernels on OpenCL devices."""
