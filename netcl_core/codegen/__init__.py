"""Code generation: from C expressions to the source of kernels.

Owns expressions, SSA blocks, regions with their forward and backward programs, the elementwise
record `AutogradPrimitive`, and what is rendered into the slots of other kernels. Imports
`tensors`, `runtime` and what lies below them.
"""
