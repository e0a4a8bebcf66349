"""The matrix: plugins x cores x Pythons x OpenCL runtimes, each cell checked on its own."""
