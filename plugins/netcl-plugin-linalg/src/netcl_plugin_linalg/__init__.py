"""Matrix products and linear layers' kernels for netcl."""
