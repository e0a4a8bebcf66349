"""Drawing: a traced function as a graph of kernels, in Graphviz' language and as SVG."""
