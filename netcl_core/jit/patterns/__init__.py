"""Training patterns: groups of traced ops that a plugin computes by kernels of its own."""
