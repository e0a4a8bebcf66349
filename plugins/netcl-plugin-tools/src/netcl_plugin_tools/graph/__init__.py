"""Drawing: a traced function as a graph of kernels, laid out and written as SVG."""
